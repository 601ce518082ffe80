# Longshore: the verbs. Each sets itself up; nothing needs to be installed by hand but Python 3.11+ and git.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# Every Python that `pyproject.toml` names, each with a virtual environment of its own.
PYTHONS := 3.11 3.12 3.13
# Many tests wait for processes and leases, so more test processes than processors finish sooner.
TEST_PROCESSES := $(shell $(PYTHON) -c "import os; print(2 * (os.cpu_count() or 1) + 1)")
# Each test process starts with a part of its own, so that fixtures of a file are made once; idle ones steal work.
TEST_OPTIONS := -n $(TEST_PROCESSES) --dist worksteal
LOCK_OPTIONS := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header
# Keep the output of each parallel target together, if this make can.
IN_PIECES := $(if $(filter output-sync,$(.FEATURES)),--output-sync)

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev demo test dist site matrix $(PYTHONS:%=test-on-%) services check lint types imports docs audit format bench chaos containers lock clean

help: ## list the verbs
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Longshore needs Python 3.11 or newer; '$(PYTHON)' is older. Fix: make $(MAKECMDGOALS) PYTHON=/path/to/python3.11" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: requirements.lock pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-deps -e .
	@touch $@

$(VENV)/.ready-dev: requirements-dev.lock $(VENV)/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps -r requirements-dev.lock
	@touch $@

setup: $(VENV)/.ready ## make the virtual environment
setup-dev: $(VENV)/.ready-dev ## the same, with what tests and checks need

demo: setup ## scrape a bundled local site with several workers
	@$(BIN)/longshore demo

test: setup-dev services ## run all tests; those that run the docs are part of `make check`
	$(BIN)/python -m pytest $(TEST_OPTIONS) --ignore=tests/docs

# One after another: each keeps all processors busy.
matrix: ## run all tests on every supported Python; one that is missing is skipped, but fails in CI
	@failed=; for version in $(PYTHONS); do $(MAKE) --no-print-directory test-on-$$version || failed=1; done; test -z "$$failed"

# A command of pyenv may be on the path for a version that is not switched on: each is asked which Python it is.
$(PYTHONS:%=test-on-%): test-on-%:
	@for each in python$* "$$(pyenv prefix $* 2>/dev/null || echo /nonexistent)/bin/python"; do \
	  if "$$each" -c 'import sys; sys.exit(sys.version_info[:2] != tuple(map(int, "$*".split("."))))' 2>/dev/null; then \
	    echo "Python $*: $$("$$each" --version)"; \
	    exec $(MAKE) --no-print-directory test VENV=.venv-$* PYTHON="$$each"; \
	  fi; \
	done; \
	echo "Python $* is not on this machine, so nothing was tested on it. Fix: put python$* on the PATH, or pyenv install $*" >&2; \
	test -z "$$CI"

services: setup-dev ## install the servers that tests need
	@$(BIN)/python -m tests.services.prepare

# The type check takes longest and uses one process, so the others run beside it.
check: setup-dev ## format, lint, types, imports, docs that run; with AUDIT=1 also `make audit`
	@$(MAKE) --no-print-directory -j2 $(IN_PIECES) lint types imports docs $(if $(AUDIT),audit)

lint: setup-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: setup-dev
	$(BIN)/mypy
	$(BIN)/mypy src --platform win32 --cache-dir .mypy_cache/win32
	$(BIN)/mypy src --platform darwin --cache-dir .mypy_cache/darwin

imports: setup-dev
	$(BIN)/lint-imports

docs: setup-dev
	$(BIN)/python -m pytest tests/docs $(TEST_OPTIONS)

# Not part of every check, because it asks a service on the internet.
audit: ## ask a database of known weaknesses about all locked libraries
	@test -x .venv-audit/bin/pip-audit || { $(PYTHON) -m venv .venv-audit && \
	  .venv-audit/bin/python -m pip install --quiet --disable-pip-version-check pip-audit; }
	.venv-audit/bin/pip-audit --disable-pip --require-hashes -r requirements-dev.lock

site: setup-dev ## the documentation as a site in build/site, which needs no network; a dead link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "Open build/site/index.html"

dist: setup ## build the wheel and the source archive in dist/
	rm -rf dist
	$(BIN)/python -m hatchling build -d dist

format: setup-dev ## format the code and fix lint
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup-dev ## measure ours beside the peers, in one run
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -e '.[bench]'
	$(BIN)/python -m benchmarks

# MEDIUM: sqlite, directory, postgres, git or http; left out, one after another. SEED repeats the mix of an earlier run.
MEDIUM ?= all
MINUTES ?= 10
chaos: setup-dev services ## faults and real processes for MINUTES on MEDIUM [SEED]; the history checker judges
	$(BIN)/python -m tests.chaos --medium $(MEDIUM) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

containers: setup-dev ## build the image, run compose.yaml with real containers, kill some, check every job (root, podman)
	$(BIN)/python -m tests.containers

lock: ## pin the requirements again (needs uv)
	uv pip compile pyproject.toml --extra build $(LOCK_OPTIONS) -o requirements.lock
	for each in bolt model; do uv pip compile tests/services/$$each.in --no-deps $(LOCK_OPTIONS) -o tests/services/$$each.lock; done
	uv pip compile pyproject.toml --extra build --extra postgres --extra browser --extra fingerprint --extra brotli --extra html --extra parquet --extra graph --extra pdf --extra serve --extra metrics --extra traces --extra test --extra check $(LOCK_OPTIONS) -o requirements-dev.lock
	uv pip compile pyproject.toml --extra postgres --extra fingerprint --extra brotli --extra graph --extra pdf --extra serve --extra metrics --extra traces -c requirements-dev.lock $(LOCK_OPTIONS) -o deploy/requirements/slim.lock
	uv pip compile pyproject.toml --extra browser --extra postgres --extra fingerprint --extra brotli --extra graph --extra pdf --extra serve --extra metrics --extra traces -c requirements-dev.lock $(LOCK_OPTIONS) -o deploy/requirements/browser.lock
	echo hatchling | uv pip compile - -c requirements-dev.lock $(LOCK_OPTIONS) -o deploy/requirements/build.lock

clean: ## remove what was built or cached
	rm -rf .venv .venv-audit .venv-services $(PYTHONS:%=.venv-%) .pytest_cache .mypy_cache .ruff_cache .hypothesis .longshore dist build
