"""How torch and the loader share the cores of a command."""

from __future__ import annotations

import os

__all__ = ["wait_passively"]


def wait_passively() -> None:
    """Lets torch's idle threads sleep; call before torch is first imported.

    OpenMP's threads spin while they wait, on cores that the loader's threads could use: on two
    busy cores a training step takes twice as long. A setting of the user's own stays.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
