"""The four kinds of error, and the layout of their messages.

A message says what, where, got and expected on its first line; further lines give the store and the
next step::

    thetao_3: chunk 412.0.0: 131072 bytes, expected 259200 (float32, 1x180x360)
      store: om4_onedeg/OM4.zarr
      hint:  the file looks truncated; copy it again

Each kind takes this text as its only argument, so that it pickles and is raised again unchanged in
another process.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable

__all__ = ["DecodeError", "FormatError", "StoreError", "UsageError", "address", "near_names"]


class StoreError(OSError):
    """The store, or something in it, is absent or cannot be read by the operating system."""


class FormatError(ValueError):
    """The store holds something other than what was asked or promised."""


class UsageError(ValueError):
    """A call that makes no sense, whatever the store holds."""


class DecodeError(RuntimeError):
    """The bytes of a chunk are not what the metadata promises."""


def address(
    what: str, *, store: str | os.PathLike[str] | None = None, hint: str | None = None
) -> str:
    """The text of an error: `what`, then a line for the store and one for the hint where given."""
    lines = [what]
    if store is not None:
        lines.append(f"  store: {os.fspath(store)}")
    if hint is not None:
        lines.append(f"  hint:  {hint}")
    return "\n".join(lines)


def near_names(name: str, known: Iterable[str], limit: int = 5) -> str:
    """Names of `known` that resemble `name`, as "a, b, c"; the first few of them if none does."""
    names = sorted(known)
    if not names:
        return "nothing"
    near = difflib.get_close_matches(name, names, n=limit, cutoff=0.6)
    if near:
        return ", ".join(near)
    more = f", … ({len(names)} in all)" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
