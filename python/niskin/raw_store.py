"""A store as it lies on disk: its arrays by name, undecoded, through xarray.

Nothing here knows the ocean. Values are read lazily; opening reads metadata only. xarray's own
decoding is off (it would take a fill value of 0 for a missing marker): `missing_values` applies
ours.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from niskin.chunk_files import ChunkFiles
from niskin.errors import DecodeError, FormatError, StoreError, UsageError, address, near_names
from niskin.missing_values import markers, unpack
from niskin.one_chunk import one_chunk
from niskin.zarr_metadata import ArrayMetadata, read_metadata

__all__ = ["RawArray", "RawStore", "local_path", "open_raw_store"]


@dataclass(frozen=True, kw_only=True, eq=False)
class RawArray:
    """One array: what its metadata says, and its stored values on demand."""

    name: str
    store: str
    dims: tuple[str, ...]
    shape: tuple[int, ...]  # extent along each of `dims`
    dtype: np.dtype[Any]  # as stored
    attributes: Mapping[str, Any]
    marks: tuple[float | int, ...]  # stored values that mean "missing", besides NaN
    open_variable: Callable[[], xr.Variable]
    filters: tuple[str, ...] = ()
    files: ChunkFiles | None = None  # None: not in chunk files of its own
    decode_chunk: Callable[[bytes], NDArray[Any]] | None = None  # None: not one chunk file

    @cached_property
    def variable(self) -> xr.Variable:
        """The array in xarray: lazy, undecoded."""
        return self.open_variable()

    def size(self, dim: str) -> int:
        """Extent along `dim`."""
        return self.shape[self.dims.index(dim)]

    def read(self, *, required: bool = False, **at: int) -> NDArray[Any]:
        """Physical values, whole or at one position along the dimensions given in `at`.

        Absent chunks are the fill value, unless `required`: then they raise StoreError. Any number
        type. Raises FormatError for other types and DecodeError for damaged chunks.
        """
        if self.dtype.kind not in "biuf":
            raise FormatError(
                address(
                    f"{self.name}: dtype: got {self.dtype}, expected a number", store=self.store
                )
            )
        at = {dim: index % self.size(dim) for dim, index in at.items()}
        encoded: bytes | None = None
        if self.files is not None:
            if self.decode_chunk is None or at:
                absent = self.files.absent(self._chunks(at, self.files))
            else:
                only = (0,) * len(self.dims)
                encoded = self.files.read(only)
                absent = [only] if encoded is None else []
            if absent and required:
                raise StoreError(
                    address(
                        f"{self.name}: chunk {self.files.key(absent[0])} is absent",
                        store=self.store,
                        hint="statistics have no fill value; write them again",
                    )
                )
        try:
            if self.decode_chunk is None or encoded is None:
                stored = np.asarray(self.variable.isel(at).values)
            else:
                stored = self.decode_chunk(encoded)
        except Exception as error:
            raise self.undecodable(error) from error
        return unpack(stored, self.attributes, self.marks)

    def undecodable(self, error: Exception, chunk: str | None = None) -> Exception:
        """A failed read as one of our kinds, with its place."""
        place = f"{self.name}: chunk {chunk}" if chunk else self.name
        # Codecs raise OSError too (gzip's BadGzipFile), but without the number of a system error.
        failed = isinstance(error, OSError) and error.errno is not None
        kind = StoreError if failed else DecodeError
        text = str(error) or type(error).__name__
        return kind(address(f"{place}: cannot be decoded: {text}", store=self.store))

    def _chunks(self, at: Mapping[str, int], files: ChunkFiles) -> Iterator[tuple[int, ...]]:
        return product(
            *(
                (at[dim] // chunk,) if dim in at else range(count)
                for dim, chunk, count in zip(self.dims, files.chunks, files.grid, strict=True)
            )
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class RawStore:
    """The arrays of a store. `array` builds each one once."""

    path: str
    names: frozenset[str]
    build: Callable[[str], RawArray]
    _arrays: dict[str, RawArray] = field(default_factory=dict)

    def array(self, name: str) -> RawArray:
        """The array of that name; FormatError with near names if there is none."""
        if name not in self.names:
            raise FormatError(
                address(
                    f"{name}: no such array, have {near_names(name, self.names)}", store=self.path
                )
            )
        if name not in self._arrays:
            self._arrays[name] = self.build(name)
        return self._arrays[name]


def local_path(location: str | os.PathLike[str]) -> str:
    """The absolute path of a store. Raises UsageError for what is not a path of this machine."""
    try:
        path = os.fspath(location)
    except TypeError as error:
        raise UsageError(f"store: got {location!r}, expected a path") from error
    if "://" in path:
        raise UsageError(f"store: got {path}, expected a local path (URLs are not read)")
    return str(Path(path).absolute())


def open_raw_store(location: str | os.PathLike[str]) -> RawStore:
    """Opens a Zarr store of format 2, or a NetCDF file if the name ends in `.nc`.

    Raises StoreError if nothing is there and FormatError if it is something else.
    """
    path = local_path(location)
    if not os.path.lexists(path):
        raise StoreError(
            address("no such store", store=path, hint="check the path; nothing is there")
        )
    return _open_netcdf(path) if path.endswith(".nc") else _open_zarr(path)


def _open_zarr(path: str) -> RawStore:
    def there(name: str) -> bool:
        return Path(path, name).exists()

    consolidated = there(".zmetadata")
    if not (consolidated or there(".zgroup")):
        raise FormatError(address(_why_not_zarr(path, there), store=path))
    try:
        arrays = read_metadata(path, consolidated=consolidated)
    except OSError as error:
        raise StoreError(address(f"metadata cannot be read: {error}", store=path)) from error
    except Exception as error:
        raise FormatError(address(f"metadata cannot be parsed: {error}", store=path)) from error

    @cache
    def opened() -> Any:
        # With this option xarray leaves alone a marker that is written as a plain number. Its
        # attributes are not used.
        return xr.backends.ZarrStore.open_group(
            path, mode="r", consolidated=consolidated, zarr_format=2,
            use_zarr_fill_value_as_mask=True,
        )  # fmt: skip

    def build(name: str) -> RawArray:
        return _zarr_array(arrays[name], lambda: opened().open_store_variable(name), name, path)

    return RawStore(path=path, names=frozenset(arrays), build=build)


def _why_not_zarr(path: str, there: Callable[[str], bool]) -> str:
    if not Path(path).is_dir():
        return "not a Zarr store: got a file, expected a directory"
    if there("zarr.json"):
        return "Zarr format: got 3, expected 2"
    if there(".zarray"):
        return "not a group: got a single Zarr array, expected a group of arrays"
    return "not a Zarr store: got a directory without .zmetadata or .zgroup, expected one of them"


def _zarr_array(
    meta: ArrayMetadata, variable: Callable[[], xr.Variable], name: str, path: str
) -> RawArray:
    form, attributes = meta.form, meta.attributes
    dims = attributes.get("_ARRAY_DIMENSIONS")
    if not isinstance(dims, (list, tuple)) or len(dims) != len(form.shape):
        raise FormatError(
            address(
                f"{name}: dimension names: got {dims}, expected {len(form.shape)} of them "
                "in the attribute _ARRAY_DIMENSIONS",
                store=path,
            )
        )
    dtype = np.dtype(form.dtype.to_native_dtype())
    codec: Any = form.compressor
    files = ChunkFiles(
        store=path,
        array=name,
        separator=form.dimension_separator,
        key=form.encode_chunk_key,
        shape=form.shape,
        chunks=form.chunks,
        dtype=dtype,
        codec=None if codec is None else str(codec.codec_id),
    )
    filters: Sequence[Any] = form.filters or ()
    return RawArray(
        name=name,
        store=path,
        dims=tuple(str(dim) for dim in dims),
        shape=form.shape,
        dtype=dtype,
        attributes=attributes,
        marks=markers(attributes, form.fill_value, dtype, array=name, store=path),
        open_variable=variable,
        filters=tuple(str(f.codec_id) for f in filters),
        # A filter changes the length of a chunk, so only the unfiltered are checked by length.
        files=None if filters else files,
        decode_chunk=one_chunk(form),
    )


def _open_netcdf(path: str) -> RawStore:
    try:
        with xr.open_dataset(path, engine="h5netcdf", decode_cf=False) as dataset:
            variables = {str(name): v.load() for name, v in dataset.variables.items()}
    except OSError as error:
        raise StoreError(address(f"not a NetCDF 4 file: {error}", store=path)) from error
    except Exception as error:
        raise FormatError(address(f"not a NetCDF 4 file: {error}", store=path)) from error

    def build(name: str) -> RawArray:
        variable = variables[name]
        return RawArray(
            name=name,
            store=path,
            dims=tuple(str(dim) for dim in variable.dims),
            shape=tuple(variable.shape),
            dtype=variable.dtype,
            attributes=dict(variable.attrs),
            marks=markers(variable.attrs, None, variable.dtype, array=name, store=path),
            open_variable=lambda: variable,
        )

    return RawStore(path=path, names=frozenset(variables), build=build)
