"""What a sample store should hold, checked before anything is written."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from niskin.channels import BOUNDARY_SETS, DEPTHS_M, PROGNOSTIC_SETS, split_level
from niskin.errors import UsageError, address, near_names

from .grid import RESOLUTIONS
from .pentads import PER_YEAR

__all__ = ["CODECS", "DEFAULT_VARIABLES", "LAYOUTS", "Request"]

DEFAULT_VARIABLES = "thermo_dynamic_all+tau_hfds"
LAYOUTS = ("flat", "compact", "compact-time-first")
# lz4 and zstd are blosc's, level 5 with byte shuffle, as in ocean stores; the plain ones are not.
CODECS = ("none", "lz4", "zstd", "plain-lz4", "plain-zstd", "zlib", "gzip")

_DEPTH_BASES = ("uo", "vo", "thetao", "so")
_SURFACE = ("zos", "hfds", "tauuo", "tauvo")
_ALL = (*(f"{base}_{k}" for base in _DEPTH_BASES for k in range(len(DEPTHS_M))), *_SURFACE)
_SETS = {**PROGNOSTIC_SETS, **BOUNDARY_SETS}
_BLOCK_BYTES = 48 << 20
_MOST_BLOCK_ROWS = 16


def _choice(what: str, got: str, choices: Sequence[str]) -> None:
    if got not in choices:
        raise UsageError(f"sample store: {what}: got {got!r}, expected one of {', '.join(choices)}")


def _count(what: str, got: object, least: int = 1, most: int = 10**6) -> None:
    if isinstance(got, bool) or not isinstance(got, int) or not least <= got <= most:
        raise UsageError(
            f"sample store: {what}: got {got!r}, expected a whole number from {least} to {most}"
        )


def _words(variables: str | Sequence[str]) -> list[tuple[str, ...]]:
    """Each word as the channels that it stands for.

    "thetao_1" is the key of a set and the name of a channel outside that set: in a list it is the
    channel, on its own the key.
    """
    if not isinstance(variables, str):
        return [(word,) if word in _ALL else _SETS.get(word, (word,)) for word in variables]
    expanded: list[tuple[str, ...]] = []
    for part in variables.split("+"):
        names = [word.strip() for word in part.split(",")]
        expanded += _words(names) if len(names) > 1 else [_SETS.get(names[0], (names[0],))]
    return expanded


def _channels(variables: str | Sequence[str]) -> tuple[str, ...]:
    """Keys of variable sets and names of channels, expanded, each channel once."""
    channels: dict[str, None] = {}
    for names in _words(variables):
        for name in names:
            if name not in _ALL:
                raise UsageError(
                    address(
                        f"sample store: variables: got {name!r}, expected channels or keys of sets",
                        hint=f"near names: {near_names(name, (*_ALL, *_SETS))}",
                    )
                )
            channels[name] = None
    if not channels:
        raise UsageError("sample store: variables: got none, expected at least one channel")
    return tuple(channels)


@dataclass(frozen=True, kw_only=True)
class Request:
    """A valid request. `Request.checked` makes one or raises UsageError."""

    resolution: str
    rows: int
    layout: str
    codec: str
    channels: tuple[str, ...]
    start_year: int
    seed: int
    rows_per_chunk: int

    @classmethod
    def checked(
        cls,
        *,
        resolution: str,
        years: int,
        rows: int | None,
        layout: str,
        codec: str,
        variables: str | Sequence[str],
        start_year: int,
        seed: int,
        rows_per_chunk: int,
    ) -> Request:
        """Validate every argument; the message names the one that is wrong and what it may be."""
        _choice("resolution", resolution, tuple(RESOLUTIONS))
        _choice("layout", layout, LAYOUTS)
        _choice("codec", codec, CODECS)
        _count("years", years, most=1000)
        _count("start_year", start_year, most=8000)
        _count("seed", seed, least=0, most=2**63 - 1)
        _count("rows_per_chunk", rows_per_chunk)
        if rows is None:
            rows = years * PER_YEAR
        _count("rows", rows)
        return cls(
            resolution=resolution,
            rows=rows,
            layout=layout,
            codec=codec,
            channels=_channels(variables),
            start_year=start_year,
            seed=seed,
            rows_per_chunk=rows_per_chunk,
        )

    @property
    def shape(self) -> tuple[int, int]:
        """Latitudes and longitudes."""
        return RESOLUTIONS[self.resolution]

    @property
    def levels(self) -> int:
        """Levels that the store has: all in flat layout, the deepest asked for in a compact one."""
        if self.layout == "flat":
            return len(DEPTHS_M)
        return 1 + max(split_level(channel)[1] or 0 for channel in self.channels)

    @property
    def arrays(self) -> dict[str, tuple[str, ...]]:
        """Every array of fields with the channels that it holds, in the order of its levels.

        A compact array holds every level from 0 down, whether it was asked for or not.
        """
        if self.layout == "flat":
            return {channel: (channel,) for channel in self.channels}
        arrays: dict[str, tuple[str, ...]] = {}
        for channel in self.channels:
            base, level = split_level(channel)
            deep = tuple(f"{base}_{k}" for k in range(self.levels))
            arrays[base] = (channel,) if level is None else deep
        return arrays

    @property
    def block_rows(self) -> int:
        """Rows that are made and written at a time: whole chunks, of moderate size in memory."""
        ny, nx = self.shape
        largest = max(len(names) for names in self.arrays.values())
        rows = min(_MOST_BLOCK_ROWS, max(1, _BLOCK_BYTES // (largest * ny * nx * 4)))
        return self.rows_per_chunk * math.ceil(rows / self.rows_per_chunk)
