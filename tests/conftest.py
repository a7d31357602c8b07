"""Settings that every test shares: GPU tests skip without a GPU, generated cases are repeatable."""

from __future__ import annotations

import functools
import os

import pytest
from hypothesis import HealthCheck, settings

# The gate sees the same cases every time; the nightly run looks for new ones.
_QUIET = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture]
settings.register_profile(
    "gate", max_examples=25, deadline=None, derandomize=True, suppress_health_check=_QUIET
)
settings.register_profile(
    "nightly", max_examples=500, deadline=None, print_blob=True, suppress_health_check=_QUIET
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))


@functools.cache
def _has_cuda() -> bool:
    try:
        import torch
    except ImportError:
        return False
    return torch.cuda.is_available()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test marked `cuda` on a machine without a GPU."""
    if item.get_closest_marker("cuda") is not None and not _has_cuda():
        pytest.skip("needs an NVIDIA GPU")
