# Longshore: the verbs. Each sets itself up; nothing needs to be installed by hand but Python 3.11+ and git.
PYTHON ?= python3
BIN := .venv/bin
# Many tests wait for processes and leases: more than twice as many as processors finish sooner.
TEST_PROCESSES := $(shell $(PYTHON) -c "import os; print(2 * (os.cpu_count() or 1) + 1)")
# Each begins with a part of its own, so that what a file's tests share is made once; who is done first helps the others.
TEST_OPTIONS := -n $(TEST_PROCESSES) --dist worksteal
LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
# What runs at the same time says its lines in one piece, where this make can do that.
IN_PIECES := $(if $(filter output-sync,$(.FEATURES)),--output-sync)

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test services check lint types imports docs format bench chaos lock clean

help: ## list the verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Longshore needs Python 3.11 or newer; '$(PYTHON)' is older. Fix: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv .venv

.venv/.ready: requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

.venv/.ready-dev: requirements-dev.lock .venv/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

setup: .venv/.ready ## make the virtual environment
setup-dev: .venv/.ready-dev ## the same, with what tests and checks need

demo: setup ## scrape a bundled local site with several workers
	@$(BIN)/longshore demo

test: setup-dev services ## run all tests; those that run the docs are part of `make check`
	$(BIN)/python -m pytest $(TEST_OPTIONS) --ignore=tests/docs

services: setup-dev ## see to the servers that tests need
	@$(BIN)/python -m tests.services.prepare

# Types are checked by one process and take longest: the others need not wait for it.
check: setup-dev ## format, lint, types, imports, docs that run
	@$(MAKE) --no-print-directory -j2 $(IN_PIECES) lint types imports docs

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup-dev
	$(BIN)/mypy

imports: setup-dev
	$(BIN)/lint-imports

docs: setup-dev
	$(BIN)/python -m pytest tests/docs $(TEST_OPTIONS)

format: setup-dev ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup-dev ## measure ours beside the peers, in one run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[bench]'
	$(BIN)/python -m benchmarks

chaos: setup-dev ## the long proofs: kill everything, lose nothing
	$(BIN)/python -m pytest tests/chaos --long

lock: ## pin the requirements anew (needs uv)
	uv pip compile pyproject.toml --extra build $(LOCK_OPTIONS) -o requirements.lock
	uv pip compile pyproject.toml --extra build --extra postgres --extra browser --extra fingerprint --extra html --extra parquet --extra test --extra check $(LOCK_OPTIONS) -o requirements-dev.lock

clean: ## remove what was built or cached
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .longshore dist build
