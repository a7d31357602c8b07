"""What an opened store holds besides its fields, and the recipe that opens it.

A recipe is what crosses to another process; the content is read again there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from niskin.errors import FormatError, address
from niskin.field_reader import MissingChunks, Reader
from niskin.layout import ChannelLocation
from niskin.time_axis import Dates

__all__ = ["BadValuesPolicy", "Content", "Recipe", "Reopened"]

BadValuesPolicy = Literal["error", "warn", "ignore"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Content:
    """What opening a store finds: everything but the fields themselves."""

    name: str
    store_path: str
    prognostic: tuple[str, ...]
    boundary: tuple[str, ...]
    time: Dates
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]
    masks: Mapping[str, NDArray[np.bool_]]
    means: Mapping[str, np.floating[Any]]
    stds: Mapping[str, np.floating[Any]]
    metadata: Mapping[str, Mapping[str, str]]
    locations: Mapping[str, ChannelLocation]
    sentinels: Mapping[str, tuple[float, ...]]
    reader: Reader

    @property
    def channels(self) -> tuple[str, ...]:
        """Prognostic channels, then the boundary channels that are not among them."""
        return tuple(dict.fromkeys((*self.prognostic, *self.boundary)))


class Recipe(Protocol):
    """How to open a store: small, picklable, and the same content each time."""

    @property
    def missing_chunks(self) -> MissingChunks:
        """The policy for an absent chunk that holds a wet cell."""

    @property
    def bad_values(self) -> BadValuesPolicy:
        """The policy for NaN and infinities in wet cells."""

    def open(self) -> Content:
        """Opens the store: reads metadata, coordinates, masks and statistics, and no field."""


@dataclass(frozen=True, kw_only=True)
class Reopened:
    """A recipe that checks, when a worker opens the store, that it still holds the same dates."""

    recipe: Recipe
    span: tuple[int, int]
    dates: tuple[str, str]

    @property
    def missing_chunks(self) -> MissingChunks:
        """As in the recipe."""
        return self.recipe.missing_chunks

    @property
    def bad_values(self) -> BadValuesPolicy:
        """As in the recipe."""
        return self.recipe.bad_values

    def open(self) -> Content:
        """Opens the store; FormatError if the dates of the span are others by now."""
        content = self.recipe.open()
        time = content.time[slice(*self.span)]
        found = (str(time[0]), str(time[-1])) if len(time) == self.span[1] - self.span[0] else ()
        if found != self.dates:
            raise FormatError(
                address(
                    f"time: got {' to '.join(found) or 'fewer rows'}, "
                    f"expected {' to '.join(self.dates)} as when the dataset was sent",
                    store=content.store_path,
                    hint="the store was rewritten while it was in use",
                )
            )
        return content
