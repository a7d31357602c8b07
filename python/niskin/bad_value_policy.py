"""What a pass does about NaN and infinities in wet cells: raise, warn once, or nothing."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from niskin.bad_values import BadValues
from niskin.errors import FormatError, address

if TYPE_CHECKING:
    from niskin.canonical import CanonicalDataset

__all__ = ["BadValuePolicy"]


class BadValuePolicy:
    """Follows each dataset's `bad_values` through one pass, and counts.

    The values themselves stay what the preparation makes of them: 0, or the largest float32.
    """

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}  # by channel
        self._warned = False

    def note(self, source: CanonicalDataset, channel: str, position: int, found: BadValues) -> None:
        """Takes note of one plane, `position` on `source.time`; `found.first` is (lat, lon).

        Raises FormatError under "error"; under "warn" warns for the first plane of the pass.
        """
        if source.bad_values == "ignore":
            return
        self.counts[channel] = self.counts.get(channel, 0) + found.count
        what = found.describe(channel, source.time[position])
        if source.bad_values == "error":
            raise FormatError(
                address(what, store=source.store_path, hint='bad_values="warn" takes them as 0')
            )
        if not self._warned:
            self._warned = True
            hint = "the first of this epoch; the loader's stats count them all"
            warnings.warn(
                address(what, store=source.store_path, hint=hint), UserWarning, stacklevel=2
            )
