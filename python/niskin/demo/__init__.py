"""The demo: a store, a small emulator trained on it through the C++ loader, and what came of it.

Needs torch and matplotlib. `niskin demo` runs it; `run_demo` is the same from Python.
"""

from .run import DemoResult, DemoView, run_demo
from .settings import FULL, QUICK, DemoSettings

__all__ = ["FULL", "QUICK", "DemoResult", "DemoSettings", "DemoView", "run_demo"]
