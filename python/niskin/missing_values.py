"""Which stored numbers mean "no value here", by decision 5.

The attributes `_FillValue` and `missing_value` mark, and so does the `fill_value` of a format 2
array unless it is 0. A `fill_value` of 0 without attributes marks nothing: it is what writers put
there when nobody asked, and a latitude of 0.0 or a dry mask cell is a value.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from niskin.errors import FormatError, address

__all__ = ["is_packed", "markers", "unpack"]


def markers(
    attributes: Mapping[str, Any], fill_value: Any, dtype: np.dtype[Any], *, array: str, store: str
) -> tuple[float | int, ...]:
    """The values that mark a missing one in an array of `dtype`, cast to it; NaN is left out.

    `fill_value` is the one of a format 2 array, None elsewhere. Attributes may be lists, and
    float64 text of a float32 number. Raises FormatError for an attribute that is not a number.
    """
    given: list[Any] = []
    for name in ("_FillValue", "missing_value"):
        value = attributes.get(name)
        if value is not None:
            flat = np.ravel(np.asarray(value, dtype=object)).tolist()
            given.extend(_number(v, name, array=array, store=store) for v in flat)
    if fill_value is not None and fill_value != 0:
        given.append(_number(fill_value, "fill_value", array=array, store=store))
    found: list[float | int] = []
    for value in given:
        mark = _cast(value, dtype)
        if mark is not None and mark not in found:
            found.append(mark)
    return tuple(found)


def _number(value: Any, name: str, *, array: str, store: str) -> float | int:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, bytes):
        value = value.decode("ascii", "replace")
    try:
        return value if isinstance(value, (bool, int, float)) else float(value)
    except (TypeError, ValueError) as error:
        raise FormatError(
            address(f"{array}: attribute {name}: got {value!r}, expected a number", store=store)
        ) from error


def _cast(value: float | int, dtype: np.dtype[Any]) -> float | int | None:
    """`value` as an element of `dtype`; None if no element can equal it."""
    if dtype.kind == "f":
        with np.errstate(over="ignore"):
            mark = float(np.float64(value).astype(dtype))
        overflows = math.isinf(mark) and math.isfinite(value)
        return None if math.isnan(mark) or overflows else mark
    if dtype.kind not in "iub" or not math.isfinite(value) or value != int(value):
        return None
    if dtype.kind in "iu" and not np.iinfo(dtype).min <= value <= np.iinfo(dtype).max:
        return None
    return int(value)


def is_packed(attributes: Mapping[str, Any]) -> bool:
    """Whether an array stores something other than its physical values (CF packing)."""
    return "scale_factor" in attributes or "add_offset" in attributes


def unpack(
    values: NDArray[Any], attributes: Mapping[str, Any], marks: tuple[float | int, ...]
) -> NDArray[Any]:
    """Stored values as physical ones: native byte order, NaN where marked, scale and offset
    applied.

    Values of a type without NaN become float64 only where something is marked or packed.
    """
    native = values.astype(values.dtype.newbyteorder("="), copy=False)
    missing = np.zeros(native.shape, dtype=bool)
    for mark in marks:
        missing |= native == mark
    packed = is_packed(attributes)
    if not packed and not missing.any():
        return native
    result = native.astype(np.float64 if packed or native.dtype.kind != "f" else native.dtype)
    if packed:
        scale, offset = attributes.get("scale_factor", 1.0), attributes.get("add_offset", 0.0)
        result = result * float(np.ravel(scale)[0]) + float(np.ravel(offset)[0])
    result[missing] = np.nan
    return result
