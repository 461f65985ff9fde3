# Everything that people and CI do with a checkout. `make demo` and `make test` need nothing installed beforehand but
# Python 3.11+, make and a C compiler; they install into .venv.

PYTHON ?= python3
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: demo test accuracy soak check bench gpu clean

.venv/installed: pyproject.toml constraints.txt labextension/package.json $(wildcard labextension/src/* labextension/schema/*)
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	# torch first and by itself: anything that asks for it later finds it there, instead of dragging in gigabytes.
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# A gigabyte that only tests need: `make demo` does without it.
.venv/libraries: .venv/installed
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[libraries]"
	touch $@

demo: .venv/installed  ## train the example notebook on two CPU slots and show what it shows
	GPUFIT_DEVICES=cpu:2x4GiB $(BIN)/python examples/run.py examples/01_train_a_cell.ipynb

test: .venv/libraries lint panel  ## everything, also what CI runs
	$(PYTEST) -m "not soak" -n 2 --dist loadfile

accuracy: .venv/installed  ## estimates beside all published measurements: the table, and whether the limits are met
	$(BIN)/python bench/accuracy.py

# POINTS=5: that many of each cell, spread evenly.
POINTS ?=
soak: .venv/libraries  ## kill and resume at every safe point (table in bench/results/soak.json); hostile users for ten minutes
	SOAK_POINTS=$(POINTS) $(PYTEST) -m soak -s

check: .venv/installed lint panel  ## lint, types and the fast tests, of the panel, too
	$(PYTEST) -m "not slow and not browser and not gpu and not soak"

.PHONY: lint
lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: panel
panel:  ## types and unit tests of the panel's TypeScript, where its packages are
	@if [ -x labextension/node_modules/.bin/tsc ]; then npm --prefix labextension run --silent check; \
	else echo "NOT CHECKED: the panel, without its packages (npm ci --prefix labextension)"; fi

bench: .venv/installed  ## every benchmark that needs no GPU; tables here, JSON in bench/results
	for bench in bench/*.py; do $(BIN)/python $$bench || exit 1; done

gpu:  ## on a machine with a GPU, with its own Python and torch
	python3 -m pytest -m gpu tests/gpu
	for bench in bench/gpu/*.py; do python3 $$bench || exit 1; done

clean:
	rm -rf .venv build dist labextension/node_modules labextension/lib jupyter_gpufit/_labextension
