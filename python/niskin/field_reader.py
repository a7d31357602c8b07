"""Reading field values through xarray: the opt-out path, and the oracle of every parity test."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from niskin.channels import unknown_channels
from niskin.chunk_files import ChunkFiles
from niskin.errors import FormatError, StoreError, address
from niskin.layout import ChannelLocation
from niskin.missing_values import is_packed
from niskin.raw_store import RawArray

__all__ = ["Field", "MissingChunks", "Reader", "XarrayReader"]

MissingChunks = Literal["error", "warn", "fill"]
Rows = NDArray[np.int64]
Planes = NDArray[np.float32]
_SPATIAL = ("lat", "y"), ("lon", "x")


class Reader(Protocol):
    """What reads the planes of a dataset."""

    @property
    def channels(self) -> tuple[str, ...]:
        """Every channel that can be asked for, in canonical order."""

    def read(self, rows: Rows, channels: Sequence[str]) -> Planes:
        """Raw physical values of rows of the store: float32, rows.shape + (channel, ny, nx)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Field:
    """A float32 array: (time, lat|y, lon|x), or that with `lev` before or after `time`."""

    array: RawArray

    def __post_init__(self) -> None:
        """Raises FormatError, naming the array, for what cannot be read as a field."""
        array = self.array
        if array.dtype.newbyteorder("=") != np.float32:
            self._refuse(f"dtype: got {array.dtype}, expected float32")
        if array.filters:
            self._refuse(f"filters: got {', '.join(array.filters)}, expected none")
        if is_packed(array.attributes):
            self._refuse("packing: got scale_factor or add_offset, expected plain values")
        dims = array.dims
        leading, spatial = dims[:-2], dims[-2:]
        if leading not in (("time",), ("time", "lev"), ("lev", "time")) or not all(
            dim in names for dim, names in zip(spatial, _SPATIAL, strict=True)
        ):
            self._refuse(
                f"dimensions: got ({', '.join(dims)}), expected (time, lat|y, lon|x), "
                "with lev before or after time for depth variables"
            )
        if 0 in array.shape:
            self._refuse(f"shape: got {array.shape}, expected no zero-sized extent")

    def _refuse(self, what: str) -> None:
        raise FormatError(address(f"{self.array.name}: {what}", store=self.array.store))

    @property
    def has_levels(self) -> bool:
        """Whether the array has a level axis."""
        return "lev" in self.array.dims

    @property
    def shape(self) -> tuple[int, int, int]:
        """(time, ny, nx)."""
        ny, nx = self.array.shape[-2:]
        return self.array.size("time"), ny, nx

    @property
    def sentinels(self) -> tuple[float, ...]:
        """Stored values that mean "missing", besides NaN, as float32 numbers."""
        return tuple(float(mark) for mark in self.array.marks)

    def load(self, rows: Rows, levels: Sequence[int]) -> Planes:
        """Planes of ascending `rows` and `levels`: (row, level, ny, nx), NaN where missing.

        An array without levels has one plane a row; `levels` is then ignored.
        """
        at: dict[str, slice | NDArray[np.int64]] = {"time": _as_slice(rows)}
        if self.has_levels:
            at["lev"] = _as_slice(np.asarray(levels, dtype=np.int64))
        stored = np.asarray(self.array.variable.isel(at).values)
        block = stored.astype(np.float32, copy=not stored.flags.writeable)
        for mark in self.sentinels:
            block[block == np.float32(mark)] = np.nan
        if not self.has_levels:
            return block[:, None]
        return block if self.array.dims[0] == "time" else block.swapaxes(0, 1)

    def chunks(self, rows: Rows, levels: Sequence[int]) -> list[tuple[int, ...]]:
        """Coordinates of the chunks that hold `rows` and `levels`, in C order."""
        files = self.array.files
        if files is None:
            return []
        axes = []
        for dim, size, count in zip(self.array.dims, files.chunks, files.grid, strict=True):
            if dim == "time":
                axes.append(np.unique(rows // size).tolist())
            elif dim == "lev":
                axes.append(sorted({level // size for level in levels}))
            else:
                axes.append(range(count))
        return list(product(*axes))


def _as_slice(positions: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Ascending positions as a slice where they are neighbours, which is read faster."""
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == positions.size else positions


@dataclass(frozen=True, kw_only=True, eq=False)
class XarrayReader:
    """Reads channels through xarray and zarr-python, keeping the policy for absent chunks."""

    channels: tuple[str, ...]
    fields: Mapping[str, Field]  # by array name
    locations: Mapping[str, ChannelLocation]
    masks: Mapping[str, NDArray[np.bool_]]
    missing_chunks: MissingChunks

    def read(self, rows: Rows, channels: Sequence[str]) -> Planes:
        """Raw physical values of store rows: rows.shape + (channel, ny, nx); see `Reader`.

        Each row and array is read once however often it is asked for. Raises KeyError for an
        unknown channel, StoreError for an absent chunk with a wet cell (by policy), DecodeError
        for damage.
        """
        unknown = unknown_channels(channels, self.channels)
        if unknown:
            raise KeyError(unknown)
        _, ny, nx = next(iter(self.fields.values())).shape
        out = np.empty((rows.size, len(channels), ny, nx), dtype=np.float32)
        if rows.size:
            unique, inverse = np.unique(rows.ravel(), return_inverse=True)
            ordered = unique.size == rows.size and bool((inverse == np.arange(rows.size)).all())
            for name, positions in self._by_array(channels).items():
                wanted = [channels[p] for p in positions]
                levels = sorted({self.locations[c].level or 0 for c in wanted})
                block = self._load(self.fields[name], unique, levels, wanted)
                for position, channel in zip(positions, wanted, strict=True):
                    plane = block[:, levels.index(self.locations[channel].level or 0)]
                    out[:, position] = plane if ordered else plane[inverse]
        return out.reshape(*rows.shape, *out.shape[1:])

    def _by_array(self, channels: Sequence[str]) -> dict[str, list[int]]:
        groups: dict[str, list[int]] = {}
        for position, channel in enumerate(channels):
            groups.setdefault(self.locations[channel].array, []).append(position)
        return groups

    def _load(
        self, field: Field, rows: Rows, levels: Sequence[int], channels: Sequence[str]
    ) -> Planes:
        files = field.array.files
        chunks = field.chunks(rows, levels)
        if files is not None:
            self._apply_policy(field, files, files.absent(chunks), channels)
        try:
            return field.load(rows, levels)
        except MemoryError:
            raise
        except Exception as error:
            raise self._locate_damage(field, chunks, error) from error

    def _apply_policy(
        self,
        field: Field,
        files: ChunkFiles,
        absent: Sequence[tuple[int, ...]],
        channels: Sequence[str],
    ) -> None:
        if self.missing_chunks == "fill":
            return
        wet = [chunk for chunk in absent if self._holds_wet_cell(field, files, chunk, channels)]
        if not wet:
            return
        what = f"{field.array.name}: chunk {files.key(wet[0])} is absent"
        if len(wet) > 1:
            what += f", and {len(wet) - 1} more"
        if self.missing_chunks == "warn":
            warnings.warn(
                address(f"{what}; read as fill", store=files.store), UserWarning, stacklevel=5
            )
            return
        raise StoreError(
            address(
                what,
                store=files.store,
                hint="it holds wet cells, so it was lost; restore it, or open with "
                'missing_chunks="fill"',
            )
        )

    def _holds_wet_cell(
        self, field: Field, files: ChunkFiles, chunk: tuple[int, ...], channels: Sequence[str]
    ) -> bool:
        extent = {
            dim: slice(c * size, (c + 1) * size)
            for dim, c, size in zip(field.array.dims, chunk, files.chunks, strict=True)
        }
        box = tuple(extent[dim] for dim in field.array.dims[-2:])
        return any(
            bool(self.masks[channel][box].any())
            for channel in channels
            if not field.has_levels
            or extent["lev"].start <= (self.locations[channel].level or 0) < extent["lev"].stop
        )

    def _locate_damage(
        self, field: Field, chunks: Sequence[tuple[int, ...]], error: Exception
    ) -> Exception:
        """The error of a failed read, with the key of the first chunk that cannot be read alone."""
        files = field.array.files
        for chunk in chunks if files is not None else ():
            assert files is not None
            at = {
                dim: slice(c * size, (c + 1) * size)
                for dim, c, size in zip(field.array.dims, chunk, files.chunks, strict=True)
            }
            try:
                _ = field.array.variable.isel(at).values
            except Exception as cause:
                return field.array.undecodable(cause, files.key(chunk))
        return field.array.undecodable(error)
