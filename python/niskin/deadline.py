"""How long closing may take, shared out among what is closed one after the other."""

from __future__ import annotations

import time

from niskin.errors import UsageError

__all__ = ["DEADLINE_S", "Deadline"]

DEADLINE_S = 2.0  # unless the caller says otherwise, and on destruction
_LONGEST_S = 1e6  # the core counts in nanoseconds


class Deadline:
    """A point in time, `seconds` from now. Raises UsageError unless that is 0 or more."""

    def __init__(self, seconds: float = DEADLINE_S) -> None:
        if not seconds >= 0:  # NaN is not
            raise UsageError(f"deadline_s: got {seconds}, expected 0 or more seconds")
        self._until_s = time.monotonic() + min(float(seconds), _LONGEST_S)

    def left_s(self) -> float:
        """Seconds left, 0 when it has passed."""
        return max(0.0, self._until_s - time.monotonic())
