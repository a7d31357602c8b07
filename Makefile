# The verbs of development; CI calls the same ones. `make help` lists them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c

VENV := $(or $(VIRTUAL_ENV),$(CURDIR)/.venv)
export PATH := $(VENV)/bin:$(PATH)
ifneq ($(shell command -v ccache 2>/dev/null),)
export CMAKE_CXX_COMPILER_LAUNCHER ?= ccache
endif

.PHONY: help setup demo test check check-format check-tidy check-python check-layers check-stubs \
        check-decisions format stubs asan tsan asan-python bench nightly clean

help: ## list the verbs
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

setup: ## system libraries, .venv and the built package; quick when nothing changed
	@tools/setup

demo: setup ## build a sample store, train on it, show the table and the picture
	@niskin demo

test: setup ## the gate: C++ tests, Python tests, one quick demo (under 15 minutes on two cores)
	@ctest --test-dir build/python --output-on-failure --no-tests=error
	@python -m pytest

check: check-format check-layers check-decisions check-python check-stubs check-tidy ## format, lint, types, layers, stubs, decisions

check-format: setup
	@git ls-files -co --exclude-standard -- '*.h' '*.cpp' | xargs clang-format --dry-run --Werror
	@ruff format --check --quiet
	@echo "format: as the formatters would have it"

check-layers: setup
	@python tools/check_layers.py

check-decisions: setup
	@python tools/check_decisions.py

check-python: setup
	@ruff check --quiet
	@mypy

check-stubs: setup
	@python tools/check_stubs.py

check-tidy: setup
	@python tools/tidy.py build/python

format: setup ## rewrite C++ and Python as the formatters would have it
	@git ls-files -co --exclude-standard -- '*.h' '*.cpp' | xargs clang-format -i
	@ruff format
	@ruff check --fix-only --quiet

stubs: setup ## write python/niskin/_core.pyi from the built extension
	@python tools/check_stubs.py --write

asan: setup ## C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer
	@tools/sanitize asan

tsan: setup ## C++ tests under ThreadSanitizer
	@tools/sanitize tsan

asan-python: setup ## lifecycle tests of the extension under AddressSanitizer, without torch
	@tools/sanitize asan-python

bench: setup ## the scenarios of bench/, answers compared before anything is timed
	@python -m bench

nightly: setup asan tsan asan-python ## the full matrices
	@ctest --test-dir build/python --output-on-failure --no-tests=error
	@HYPOTHESIS_PROFILE=nightly python -m pytest -m "nightly or not nightly"

clean: ## remove what was built; keeps .venv
	@rm -rf build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	@rm -f $(VENV)/niskin-build.stamp
