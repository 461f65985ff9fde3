# Everything that people and CI do with a checkout. `make demo` and `make test` need nothing installed beforehand but
# Python 3.11+, make and a C compiler; they install into .venv.

# PYTHON=python3.13: another interpreter, with an environment of its own, .venv-3.13.
PYTHON ?= python3
ifeq ($(origin PYTHON),file)
VENV := .venv
else
VENV := .venv-$(shell $(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')
endif

# OLDEST=yes: with the oldest versions that pyproject.toml admits, torch's apart, in .venv-oldest. Together with
# LIBRARIES=no, for the newest of those know no others.
ifeq ($(OLDEST),yes)
VENV := .venv-oldest
CONSTRAINTS := $(VENV)/constraints.txt
else
CONSTRAINTS := constraints.txt
endif
BIN := $(VENV)/bin
PYTEST := $(BIN)/python -m pytest

# What is never imported is never compiled: of torch alone that is 10 s of a processor.
export PIP_NO_COMPILE := 1

.PHONY: demo test accuracy soak known check bench gpu clean

$(VENV)/installed: pyproject.toml constraints.txt labextension/package.json $(wildcard labextension/src/*.* labextension/src/*/* labextension/schema/*)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	if [ $(CONSTRAINTS) != constraints.txt ]; then $(BIN)/python tests/oldest.py $(CONSTRAINTS); fi
	# torch first and by itself: anything that asks for it later finds it there, instead of dragging in gigabytes.
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) torch
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[dev]"
	touch $@

# What the demo uses, and nothing that only tests use; where these are installed, they are enough. The panel is built
# while torch comes, as a wheel that nobody installs: what is built is then not built again.
$(VENV)/demo: pyproject.toml constraints.txt
	@echo "Installing into $(VENV); most of it is torch."
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --upgrade "pip>=24"
	@$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(VENV)/panel . & panel=$$!; \
	  $(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) torch && wait $$panel
	@HATCH_BUILD_NO_HOOKS=true \
	  $(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --editable ".[demo]"
	@touch $@

# A gigabyte of other people's libraries, with whose loops, models and trackers tests train; a missing one then fails.
# LIBRARIES=no: without them. What trains with one that is not there is skipped, loudly.
LIBRARIES ?= yes
ifeq ($(LIBRARIES),yes)
READY := $(VENV)/libraries
WITH := WITH_LIBRARIES=1
else
READY := $(VENV)/installed
WITH :=
endif

# Beside others, as in `make -j demo test`, it waits for what these install: two at once in one environment break it.
ifneq ($(filter-out demo clean gpu panel,$(MAKECMDGOALS)),)
DEMO_READY := $(READY)
else
DEMO_READY := $(if $(wildcard $(VENV)/installed),$(VENV)/installed,$(VENV)/demo)
endif

demo: $(DEMO_READY)  ## train the example notebook on two CPU slots and show what it shows
	@GPUFIT_DEVICES=cpu:2x4GiB $(BIN)/python examples/run.py --story examples/01_train_a_cell.ipynb

test: $(READY)  ## everything, also what CI runs; all three at once, for mypy needs one processor
	$(MAKE) --no-print-directory --jobs=3 lint panel tests

# A test waits for processes that begin and end, so that more than one for each processor is needed to use them all.
# Each takes up to 1.5 GiB with the kernel and the worker that it starts.
SIDE_BY_SIDE ?= $(shell awk -v most=$$((5 * $$(nproc) / 2)) '/^MemAvailable/ { fit = int($$2 / 1572864) } \
  END { print fit < 1 ? 1 : fit < most ? fit : most }' /proc/meminfo)
.PHONY: tests
tests: $(READY)
	$(WITH) IN_TURNS=1 $(PYTEST) -m "not soak" -n $(SIDE_BY_SIDE) --dist loadfile

$(VENV)/libraries: $(VENV)/installed constraints-libraries.txt
	$(BIN)/python -m pip install --quiet --constraint $(CONSTRAINTS) --constraint constraints-libraries.txt \
	  --editable ".[libraries]"
	touch $@

.PHONY: libraries
libraries: $(VENV)/libraries  ## only the rooms whose tests train with other libraries
	WITH_LIBRARIES=1 $(PYTEST) -m "not soak" tests/snapshot tests/surroundings tests/estimate/tracing/test_trace_libraries.py

accuracy: $(VENV)/installed  ## estimates beside all published measurements: the table, and whether the limits are met
	$(BIN)/python bench/accuracy.py

# POINTS=5: that many of each cell, spread evenly.
POINTS ?=
soak: $(READY)  ## kill and resume at every safe point; hostile users for ten minutes (bench/results: soak.json, hostile.json)
	$(WITH) SOAK_POINTS=$(POINTS) $(PYTEST) -m "soak or dear" -s

# LIBRARY=skorch VERSION=1.4.0: left and killed at each place with a safe point, in an environment of its own.
known: $(VENV)/installed  ## prove a version of a library, and add it to the record of what is proven
	$(BIN)/python -m tests.snapshot.known $(LIBRARY) $(VERSION)

check: $(VENV)/installed  ## lint, types and the fast tests, of the panel, too; all three at once
	$(MAKE) --no-print-directory --jobs=3 lint panel fast

.PHONY: fast
fast: $(VENV)/installed
	$(PYTEST) -m "not slow and not browser and not gpu and not soak" -n logical --dist loadfile

.PHONY: lint
lint: $(VENV)/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

.PHONY: panel
panel:  ## types and unit tests of the panel's TypeScript, where its packages are
	@if [ -x labextension/node_modules/.bin/tsc ]; then npm --prefix labextension run --silent check; \
	else echo "NOT CHECKED: the panel, without its packages (npm ci --prefix labextension)"; fi

bench: $(VENV)/installed  ## every benchmark that needs no GPU; tables here, JSON in bench/results
	for bench in $$(grep -l __main__ bench/*.py); do $(BIN)/python $$bench || exit 1; done

gpu:  ## on a machine with a GPU, with its own Python and torch
	python3 -m pytest -m gpu tests/gpu
	for bench in bench/gpu/*.py; do python3 $$bench || exit 1; done

clean:
	rm -rf .venv .venv-* build dist labextension/node_modules labextension/lib jupyter_gpufit/_labextension
