# make demo, make test, make lint, make bench: each sets up what it needs in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUNS := $(VENV)/.runs
DEVELOPS := $(VENV)/.develops
TORCHED := $(VENV)/.torched
# The PyTorch that the tests run with; a build for the processor alone where there is one, since others are ten times as large.
TORCH ?= torch==2.13.*
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
# Whether an address answers: pip asks an index that does not for every package again, with a warning each time.
ANSWERS := $(BIN)/python -c 'import sys, urllib.request as web; web.urlopen(sys.argv[1], timeout=5)'
# Packages are compiled by whoever imports them first, which has to be kept: tests start hundreds of processes.
export PYTHONDONTWRITEBYTECODE :=
# One process of tests for each core, who take work from each other towards the end.
WORKERS ?= --numprocesses auto --maxprocesses 8 --dist worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-all lint style types pytest bench docs clean

help:
	@echo "make demo   a real run, and training steps on machines of up to 1,024 GPUs"
	@echo "make test   style, types and tests"
	@echo "make test-all   the same, with the tests that take minutes"
	@echo "make lint   style and types only"
	@echo "make docs   the documentation as a site, in build/site"
	@echo "make bench  measure reading and simulating"
	@echo "make clean  remove .venv, the demo's output and caches"

demo: $(RUNS)
	$(BIN)/chakrasim demo --out demo-out

# Types are checked beside the tests and while PyTorch is installed: one process for a minute.
test: style
	@$(MAKE) --no-print-directory --jobs 2 types pytest

test-all: style
	@$(MAKE) --no-print-directory --jobs 2 types pytest SLOW=--slow

lint: style types

style: $(DEVELOPS)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEVELOPS)
	$(BIN)/mypy

pytest: $(TORCHED)
	$(BIN)/python -m pytest $(WORKERS) $(SLOW)

docs: $(BIN)/python
	$(BIN)/python -m pip install -qq --editable '.[docs]'
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

bench: $(TORCHED)
	@set -e; for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file; done

clean:
	rm -rf $(VENV) demo-out build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "chakrasim needs Python 3.11 or newer; say make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

$(RUNS): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -qq --no-compile --editable .
	@touch $@

$(DEVELOPS): pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install -qq --no-compile --editable '.[dev]'
	@touch $@ $(RUNS)

$(TORCHED): $(DEVELOPS)
	@index=; if $(ANSWERS) '$(TORCH_INDEX)/torch/' 2>/dev/null; then index='--extra-index-url $(TORCH_INDEX)'; fi; \
	echo "$(BIN)/python -m pip install '$(TORCH)' $$index"; \
	$(BIN)/python -m pip install -qq --no-compile '$(TORCH)' --retries 1 $$index \
	  || echo "PyTorch cannot be installed: tests that need it are skipped"
	@touch $@
