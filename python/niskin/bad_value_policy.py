"""What a pass does about NaN and infinities in wet cells: raise, warn once, or nothing."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from niskin.bad_values import BadValues
from niskin.errors import FormatError, address

if TYPE_CHECKING:
    from niskin.bases import BasePlan

__all__ = ["BadChannel", "BadValuePolicy", "found_by_core"]


@dataclass(frozen=True, slots=True, kw_only=True)
class BadChannel:
    """Bad values of one channel in one batch, each (row, channel) plane of a dataset once.

    `channel` is a number in `plan.channels`, `position` the first date with such a value, `plane`
    what is bad on that date, with (lat, lon) as its `first`.
    """

    plan: BasePlan
    channel: int
    count: int
    position: int
    plane: BadValues

    def describe(self) -> str:
        """The first line of a warning or error."""
        name, time = self.plan.channels[self.channel], self.plan.source.time[self.position]
        return self.plane.describe(name, time)


class BadValuePolicy:
    """Follows each dataset's `bad_values` through one pass.

    The values themselves stay what the preparation makes of them: 0, or the largest float32.
    """

    def __init__(self) -> None:
        self._warned = False

    def note(self, found: Iterable[BadChannel]) -> None:
        """Takes note of what was found in one batch, input first, then boundary, then labels.

        The earliest date is reported: raises FormatError for a dataset whose policy is "error",
        otherwise warns, once for a pass.
        """
        ordered = sorted(found, key=lambda bad: bad.position)  # stable
        for bad in ordered:
            if bad.plan.source.bad_values == "error":
                hint = 'bad_values="warn" takes them as 0'
                raise FormatError(
                    address(bad.describe(), store=bad.plan.source.store_path, hint=hint)
                )
        if ordered and not self._warned:
            self._warned = True
            hint = "the first of this epoch; the loader's stats count them all"
            store = ordered[0].plan.source.store_path
            warnings.warn(
                address(ordered[0].describe(), store=store, hint=hint), UserWarning, stacklevel=2
            )


def found_by_core(
    plans: Sequence[BasePlan], found: Iterable[tuple[int, int, int, int, int, int]]
) -> list[BadChannel]:
    """What `FinishedBatch.bad_values` says, in the order that `BadValuePolicy.note` expects."""
    ordered = []
    for base, channel, count, row, count_in_row, cell in found:
        plan = plans[base]
        bad = BadChannel(
            plan=plan,
            channel=channel,
            count=count,
            position=int(np.searchsorted(plan.source.rows, row)),
            plane=BadValues(count=count_in_row, first=divmod(cell, plan.source.lon.size)),
        )
        # With memory of its own for every tensor, several bases hold the same channels.
        first_base = next(
            number
            for number, other in enumerate(plans)
            if other.source is plan.source and other.channels == plan.channels
        )
        ordered.append((first_base, channel, base, bad))
    return [bad for *_, bad in sorted(ordered, key=lambda entry: entry[:3])]
