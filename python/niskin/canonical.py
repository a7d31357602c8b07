"""A store as an ordered tuple of channels, whatever its layout on disk.

`CanonicalDataset` is what samplers, shards and loaders see: channels, dates, masks, statistics and
a read function. It never changes; slicing and replacing the reader give new ones. It holds no open
file and pickles as the recipe that opens it, so a worker process gets a small message and opens
the store itself when it first needs it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, cast

import cftime
import numpy as np
from numpy.typing import NDArray

from niskin.bad_values import BadValues, count_bad
from niskin.channels import unknown_channels
from niskin.content import BadValuesPolicy, Content, Recipe, Reopened
from niskin.errors import UsageError
from niskin.field_reader import MissingChunks, Planes, Reader
from niskin.layout import ChannelLocation
from niskin.time_axis import Dates, select

__all__ = ["BadValues", "CanonicalDataset", "count_bad", "shared_rows"]

# A float32 NumPy array or torch tensor; what goes in comes out.
Array = TypeVar("Array")


class CanonicalDataset:
    """An ordered set of channels over a range of dates. Immutable.

    Build one with `niskin.open_om4`. All attributes are read-only.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        content: Content | None = None,
        name: str | None = None,
        span: tuple[int, int] | None = None,
        reader: Reader | None = None,
    ) -> None:
        self._recipe = recipe
        self._opened = content
        self._name = name
        self._span = span
        self._reader = reader
        self._rows: NDArray[np.int64] | None = None  # made when first asked for

    def __reduce__(self) -> tuple[Any, ...]:
        dates = (str(self.time[0]), str(self.time[-1]))
        recipe = self._recipe
        if isinstance(recipe, Reopened):
            recipe = recipe.recipe
        return _unpickle, (recipe, self.name, self._bounds, dates, self._reader)

    def __repr__(self) -> str:
        ny, nx = self.lat.size, self.lon.size
        return (
            f"CanonicalDataset({self.name!r}: {len(self.channels)} channels, {len(self.time)} rows "
            f"from {self.time[0]} to {self.time[-1]}, {ny} x {nx})"
        )

    @property
    def _content(self) -> Content:
        if self._opened is None:
            self._opened = self._recipe.open()
        return self._opened

    @property
    def _bounds(self) -> tuple[int, int]:
        return self._span or (0, len(self._content.time))

    @property
    def name(self) -> str:
        """A name for messages; a slice says which dates it holds."""
        return self._content.name if self._name is None else self._name

    @property
    def store_path(self) -> str:
        """Absolute path of the data store."""
        return self._content.store_path

    @property
    def missing_chunks(self) -> MissingChunks:
        """The policy for an absent chunk that holds a wet cell."""
        return self._recipe.missing_chunks

    @property
    def bad_values(self) -> BadValuesPolicy:
        """The policy for NaN and infinities in wet cells, which loaders apply."""
        return self._recipe.bad_values

    @property
    def channels(self) -> tuple[str, ...]:
        """Prognostic channels, then boundary channels, each once."""
        return self._content.channels

    @property
    def prognostic(self) -> tuple[str, ...]:
        """The channels that a model predicts, in order."""
        return self._content.prognostic

    @property
    def boundary(self) -> tuple[str, ...]:
        """The channels that a model is given, in order."""
        return self._content.boundary

    @property
    def rows(self) -> NDArray[np.int64]:
        """The physical row of the store for each time point: (time,), read-only."""
        if self._rows is None:
            self._rows = np.arange(*self._bounds, dtype=np.int64)
            self._rows.flags.writeable = False
        return self._rows

    @property
    def time(self) -> Dates:
        """The date of each row, strictly increasing: an object array of cftime, read-only."""
        return self._content.time[slice(*self._bounds)]

    @property
    def lat(self) -> NDArray[np.float64]:
        """Latitudes in degrees: (ny,), read-only."""
        return self._content.lat

    @property
    def lon(self) -> NDArray[np.float64]:
        """Longitudes in degrees: (nx,), read-only."""
        return self._content.lon

    @property
    def masks(self) -> Mapping[str, NDArray[np.bool_]]:
        """Channel to bool (ny, nx), True is wet; channels of one level share one array."""
        return self._content.masks

    @property
    def metadata(self) -> Mapping[str, Mapping[str, str]]:
        """Channel to its `long_name` and `units`."""
        return self._content.metadata

    def location(self, channel: str) -> ChannelLocation:
        """The physical array of a channel, and its level there. KeyError if unknown."""
        self._check_known((channel,))
        return self._content.locations[channel]

    def sentinels(self, array: str) -> tuple[float, ...]:
        """Stored float32 values that mean "missing" in a physical array, besides NaN."""
        return self._content.sentinels[array]

    def statistics(self, channels: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        """Means and standard deviations in the order asked: two float arrays (channel,).

        Their type is the common one of the stored numbers. KeyError with the names that are
        unknown.
        """
        self._check_known(channels)
        means, stds = self._content.means, self._content.stds
        if not channels:
            return np.empty(0), np.empty(0)
        common = np.result_type(*(v[c].dtype for v in (means, stds) for c in channels))
        return (
            np.array([means[c] for c in channels], dtype=common),
            np.array([stds[c] for c in channels], dtype=common),
        )

    def read(self, indices: Any, channels: Sequence[str]) -> Planes:
        """Raw physical values through xarray: float32, indices.shape + (channel, ny, nx).

        `indices` are integer positions on `time`, of any shape; negative ones count from the end.
        Raises TypeError for other types, IndexError outside the dataset, KeyError for an unknown
        channel.
        """
        asked = np.asarray(indices)
        if asked.dtype.kind not in "iu":
            raise TypeError(f"read: indices: got dtype {asked.dtype}, expected integers")
        positions = asked.astype(np.int64)
        first, after = self._bounds
        size = after - first
        outside = (positions < -size) | (positions >= size)
        if outside.any():
            raise IndexError(f"read: got index {positions[outside][0]}, expected below {size} rows")
        self._check_known(channels)
        reader = self._reader or self._content.reader
        return reader.read(np.where(positions < 0, positions + size, positions) + first, channels)

    def normalize(self, x: Array, channels: Sequence[str]) -> Array:
        """`(x - mean) / std` in float32 on axis -3, then NaN to 0 and infinities to the largest
        float32.

        `x`: float32 array or tensor (…, channel, ny, nx); a new one is returned, on the same
        device.
        """
        mean, std = self._scales(x, channels)
        if isinstance(x, np.ndarray):
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                scaled = (x - mean) / std
            normal: Any = np.nan_to_num(scaled, copy=False)
        else:
            tensor: Any = x
            normal = ((tensor - mean) / std).nan_to_num_()
        return cast("Array", normal)

    def unnormalize(self, x: Array, channels: Sequence[str], fill: float = np.nan) -> Array:
        """`x * std + mean` in float32 on axis -3, and `fill` in the dry cells of each channel.

        `x`: float32 array or tensor (…, channel, ny, nx); a new one is returned, on the same
        device.
        """
        mean, std = self._scales(x, channels)
        wet = np.stack([self.masks[c] for c in channels])
        if isinstance(x, np.ndarray):
            physical: Any = np.where(wet, x * std + mean, np.float32(fill))
        else:
            import torch

            tensor: Any = x
            mask = torch.from_numpy(wet).to(tensor.device)
            physical = torch.where(mask, tensor * std + mean, fill)
        return cast("Array", physical)

    def between(
        self,
        start: str | cftime.datetime,
        end: str | cftime.datetime,
        *,
        clip: bool = False,
        exclusive_end: bool = False,
    ) -> CanonicalDataset:
        """The rows from `start` to `end`, both included, as a new dataset.

        A bound is a cftime object of the same calendar, or text: "2000-02-29T12:00", or
        "2000-02-29", "2000-02", "2000" for a whole day, month, year. `exclusive_end` leaves out
        the day (month, year) of `end`. Raises UsageError for an empty range, one outside the
        dates, and one partly outside unless `clip`.
        """
        low, high = select(
            self.time, start, end, clip=clip, exclusive_end=exclusive_end, store=self.store_path
        )
        first = self._bounds[0]
        mark = ")" if exclusive_end else "]"
        return CanonicalDataset(
            self._recipe,
            content=self._content,
            name=f"time=[{start}, {end}{mark}[{self.name}]",
            span=(first + low, first + high),
            reader=self._reader,
        )

    @property
    def reader_is_replaced(self) -> bool:
        """Whether `read` goes through the reader of `with_reader` instead of the store."""
        return self._reader is not None

    def with_reader(self, reader: Reader) -> CanonicalDataset:
        """The same dataset read by `reader`; UsageError unless its channels are the same."""
        if tuple(reader.channels) != self.channels:
            raise UsageError(
                f"with_reader: {self.name}: got channels {tuple(reader.channels)}, "
                f"expected {self.channels}"
            )
        return CanonicalDataset(
            self._recipe, content=self._content, name=self.name, span=self._span, reader=reader
        )

    def _check_known(self, channels: Sequence[str]) -> None:
        unknown = unknown_channels(channels, self.channels)
        if unknown:
            raise KeyError(f"{self.name}: {unknown}")

    def _scales(self, x: Any, channels: Sequence[str]) -> tuple[Any, Any]:
        """Mean and std as float32 (channel, 1, 1) of the kind, and on the device, of `x`."""
        if x.ndim < 3 or x.shape[-3] != len(channels):
            raise UsageError(
                f"{self.name}: got shape {tuple(x.shape)}, "
                f"expected {len(channels)} channels on axis -3"
            )
        scales = [s.astype(np.float32)[:, None, None] for s in self.statistics(channels)]
        if isinstance(x, np.ndarray):
            if x.dtype != np.float32:
                raise UsageError(f"{self.name}: got dtype {x.dtype}, expected float32")
            return scales[0], scales[1]
        import torch

        if x.dtype != torch.float32:
            raise UsageError(f"{self.name}: got dtype {x.dtype}, expected torch.float32")
        mean, std = (torch.from_numpy(s).to(x.device) for s in scales)
        return mean, std


def _unpickle(
    recipe: Recipe,
    name: str,
    span: tuple[int, int],
    dates: tuple[str, str],
    reader: Reader | None,
) -> CanonicalDataset:
    return CanonicalDataset(
        Reopened(recipe=recipe, span=span, dates=dates), name=name, span=span, reader=reader
    )


def shared_rows(a: CanonicalDataset, b: CanonicalDataset) -> tuple[cftime.datetime, ...]:
    """The dates that both datasets hold, in order; UsageError if their calendars differ."""
    calendars = (a.time[0].calendar, b.time[0].calendar)
    if calendars[0] != calendars[1]:
        raise UsageError(
            f"shared_rows: got calendars {calendars[0]} ({a.name}) and {calendars[1]} ({b.name}), "
            "expected one"
        )
    dates = set(b.time)
    return tuple(date for date in a.time if date in dates)
