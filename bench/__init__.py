"""Benchmarks: answers are compared first, then competitors take turns. `python -m bench --help`."""
