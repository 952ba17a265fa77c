# Needs make and Python 3.11 or newer, and nothing else. The first supported Python here; `make PYTHON=...` names another.
PYTHON ?= $(shell for python in python3 python3.13 python3.12 python3.11; do \
	"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo "$$python" && break; done)
BIN := .venv/bin

.PHONY: help setup browser demo test slow lint bench docs clean

help: ## show this
	@sed -n 's/^\([a-z]*\):.*## /  make \1|/p' Makefile | while IFS='|' read -r name text; do printf '%-14s %s\n' "$$name" "$$text"; done

setup: ## build .venv, or finish it
	@$(if $(PYTHON),"$(PYTHON)" ops/setup.py,echo 'Tellback needs Python 3.11, 3.12 or 3.13: install one, or name it: make PYTHON=...' >&2; exit 1)

browser: setup
	@"$(BIN)/python" ops/browser.py

demo: setup ## play one true story on a system of its own
	@$(BIN)/tellback demo

test: browser ## run the tests, all but the slow ones
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow"

slow: browser ## run the slow tests: many deaths, whole systems, whole files of transcripts
	$(BIN)/python -m pytest -n 2 --dist worksteal -m slow

lint: setup ## check style, types and layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports

bench: setup ## measure the ratios of the budgets
	$(BIN)/python -m benchmarks

docs: setup ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean: ## remove .venv and all that is built
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist site
