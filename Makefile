# Everything here needs a Python (3.11 or newer) with pip, and sets up .venv by itself.
#
#   make demo PYTHON=python3.12                  another Python
#   make demo TORCH_PIP='--index-url URL'        another build of torch
#
# torch comes in builds: on Linux, the package index that pip asks by default serves one that
# carries CUDA (several GB), useful with an NVIDIA card only; PyTorch's own indexes, listed on its
# "Get Started" page, have one for the CPU (200 MB) and one for each version of CUDA. TORCH says
# which version to install and TORCH_PIP what else to tell pip. A torch that is in .venv already
# is kept.

PYTHON ?= python3
TORCH ?= torch==2.13.0
TORCH_PIP ?=
ARGS ?=

BIN := .venv/bin
export TORCH TORCH_PIP

.DEFAULT_GOAL := help
.PHONY: help demo test check lint format setup setup-demo clean

help: ## list these commands
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/make \1\t\2/p' Makefile | expand -t 16

demo: setup-demo ## build an index over a real corpus and search it (under 6 minutes on two cores)
	@$(BIN)/trieline demo $(ARGS)

test: setup ## run the tests; ARGS='-k trie' picks some
	@$(BIN)/python -m pytest $(ARGS)

check: lint test ## everything that must hold: format, lint, types, import order, tests

lint: setup ## the checks that run nothing
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo

format: setup ## put the code into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

setup: python ## install all that tests and checks need into .venv
	@$(PYTHON) tools/install.py test

setup-demo: python ## install what the demo needs into .venv
	@$(PYTHON) tools/install.py demo

.PHONY: python
python:
	@command -v $(PYTHON) >/dev/null || { \
	  echo "no '$(PYTHON)' here: install Python 3.11 or newer, or name yours: make demo PYTHON=python3.12" >&2; \
	  exit 1; }

clean: ## remove what checks and builds leave; .venv stays (rm -r .venv removes it)
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find trieline tests bench examples papers tools -name __pycache__ -type d -prune -exec rm -rf {} +
