"""Names: the published variable sets, the depth table, and what a channel's name says.

A channel is `base_k` (level k of a depth variable, `thetao_3`) or the name of a surface variable
(`zos`). Stores may name levels by depth instead (`thetao_lev_40_0`); `level_of_depth` gives the k.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Literal

from niskin.errors import UsageError, address, near_names

__all__ = [
    "BOUNDARY_SETS",
    "DEPTHS_M",
    "PROGNOSTIC_SETS",
    "depth_in_name",
    "describe",
    "level_of_depth",
    "mask_level",
    "resolve_channels",
    "split_level",
]

# Centres of the 19 levels of OM4 output, in metres.
DEPTHS_M: tuple[float, ...] = (
    2.5, 10.0, 22.5, 40.0, 65.0, 105.0, 165.0, 250.0, 375.0, 550.0,
    775.0, 1050.0, 1400.0, 1850.0, 2400.0, 3100.0, 4000.0, 5000.0, 6000.0,
)  # fmt: skip


def _levels(bases: Sequence[str], count: int) -> tuple[str, ...]:
    return tuple(f"{base}_{k}" for base in bases for k in range(count))


PROGNOSTIC_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "thetao_1": ("thetao_0",),
        "thermo_dynamic_5": (*_levels(("uo", "vo", "thetao", "so"), 5), "zos"),
        "thermo_dynamic_all": (*_levels(("uo", "vo", "thetao", "so"), 19), "zos"),
        "thermo_all": (*_levels(("thetao", "so"), 19), "zos"),
    }
)
BOUNDARY_SETS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "hfds": ("hfds",),
        "tau_hfds": ("tauuo", "tauvo", "hfds"),
        "tau_hfds_hfds_anom": ("tauuo", "tauvo", "hfds", "hfds_anomalies"),
    }
)

# What a variable is called and measured in where the store does not say: (long_name, units).
_DESCRIPTIONS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "uo": ("Eastward sea water velocity", "m s-1"),
        "vo": ("Northward sea water velocity", "m s-1"),
        "thetao": ("Sea water potential temperature", "degC"),
        "so": ("Sea water salinity", "psu"),
        "zos": ("Sea surface height above geoid", "m"),
        "tauuo": ("Eastward wind stress on the sea surface", "N m-2"),
        "tauvo": ("Northward wind stress on the sea surface", "N m-2"),
        "hfds": ("Downward heat flux into the sea", "W m-2"),
        "hfds_anomalies": ("Downward heat flux into the sea, minus its climatology", "W m-2"),
    }
)


def resolve_channels(
    kind: Literal["prognostic", "boundary"], choice: str | Sequence[str]
) -> tuple[str, ...]:
    """The channels of a set's key, or of an explicit list of names, in order.

    Raises UsageError for an unknown key, an empty list, a name that occurs twice or is not a
    string.
    """
    sets = PROGNOSTIC_SETS if kind == "prognostic" else BOUNDARY_SETS
    if isinstance(choice, str):
        if choice not in sets:
            raise UsageError(
                address(
                    f"OM4: {kind} set: got {choice!r}, expected one of {', '.join(sorted(sets))}",
                    hint=f"a list of channels is given as a list, such as [{choice!r}]",
                )
            )
        return sets[choice]
    names: tuple[object, ...] = tuple(choice)
    if not names:
        raise UsageError(
            address(
                f"OM4: {kind} channels: got an empty list, expected at least one name",
                hint=f"the sets are {', '.join(sorted(sets))}",
            )
        )
    for position, name in enumerate(names):
        if not isinstance(name, str) or not name:
            raise UsageError(f"OM4: {kind} channels: got {name!r} at {position}, expected a name")
        if "_lev_" in name:
            base, depth = depth_in_name(name)
            level = None if depth is None else level_of_depth(depth)
            wanted = "a name such as thetao_0" if level is None else f"{base}_{level}"
            raise UsageError(
                f"OM4: {kind} channels: got {name!r}, expected the level's index, {wanted}"
            )
        if name in names[:position]:
            raise UsageError(f"OM4: {kind} channels: {name!r} occurs twice, expected once")
    return tuple(str(name) for name in names)


def split_level(name: str) -> tuple[str, int | None]:
    """`thetao_3` as ("thetao", 3); a name without a trailing `_<digits>` as (name, None)."""
    base, _, digits = name.rpartition("_")
    if base and digits.isascii() and digits.isdigit():
        return base, int(digits)
    return name, None


def mask_level(channel: str) -> int:
    """The level whose mask belongs to `channel`: its own level, 0 for surface channels."""
    return split_level(channel)[1] or 0


def depth_in_name(name: str) -> tuple[str, float | None]:
    """`thetao_lev_2_5` as ("thetao", 2.5); None for a depth that is not a number."""
    base, _, text = name.partition("_lev_")
    try:
        return base, float(text.replace("_", "."))
    except ValueError:
        return base, None


def level_of_depth(depth_m: float) -> int | None:
    """The index of the level at `depth_m` metres: within 1e-5 relative or 1e-6 absolute, or None.

    Names carry depths that went through float32, so equality would miss levels, and the nearest
    level without a tolerance would take a wrong one.
    """
    for level, depth in enumerate(DEPTHS_M):
        if same_depth(depth_m, depth):
            return level
    return None


def same_depth(one_m: float, other_m: float) -> bool:
    """Whether two depths in metres are one level: within 1e-5 relative or 1e-6 absolute."""
    return math.isclose(one_m, other_m, rel_tol=1e-5, abs_tol=1e-6)


def describe(channel: str, attributes: Mapping[str, object]) -> dict[str, str]:
    """The `long_name` and `units` of a channel.

    From the array's attributes where both are there, else from a table by the channel's name, then
    by the text before the first `_`, else "Unknown".
    """
    if "long_name" in attributes and "units" in attributes:
        return {"long_name": str(attributes["long_name"]), "units": str(attributes["units"])}
    known = _DESCRIPTIONS.get(channel) or _DESCRIPTIONS.get(channel.partition("_")[0])
    long_name, units = known or ("Unknown", "Unknown")
    return {"long_name": long_name, "units": units}


def unknown_channels(asked: Sequence[str], known: Sequence[str]) -> str | None:
    """For a KeyError: the sorted names of `asked` that are not in `known`, with near names."""
    missing = sorted(set(asked) - set(known))
    if not missing:
        return None
    near = "; ".join(f"{name}: near {near_names(name, known)}" for name in missing[:5])
    return f"unknown channels {', '.join(missing)} ({near})"
