# Needs make and Python 3.11 or newer, and nothing else: the first supported Python here, with `.venv`.
# `make PYTHON=python3.12 ...` takes that one, from PATH or of pyenv, with an environment of its own beside it, `.venv-3.12`.
NAMES := $(or $(PYTHON),python3 python3.13 python3.12 python3.11)
FOUND := $(shell for python in $(foreach name,$(NAMES),"$(name)" $(wildcard $(or $(PYENV_ROOT),$(HOME)/.pyenv)/versions/*/bin/$(name))); do \
	"$$python" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && echo "$$python" && break; done)
VENV := $(if $(PYTHON),.venv-$(shell "$(FOUND)" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null),.venv)
BIN := $(VENV)/bin
# A fifth of the examples of each property; `make slow` tries them all.
# Three processes for `test`, since tests that wait for workers leave two cores idle; four are no faster.
QUICK := -m "not slow" --hypothesis-profile=quick
GENERATED := shared/tellback/aio/__init__.pyi shared/tellback/state/scripts

# Tests start hundreds of Python processes, and each would compile all of Tellback again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup debian demo unit unit-all test slow simulate chaos soak proofs lint generate bench sbom pins docs clean

help: ## show this
	@sed -n 's/^\([a-z-]*\):.*## /  make \1|/p' Makefile | while IFS='|' read -r name text; do printf '%-17s %s\n' "$$name" "$$text"; done

setup: ## build .venv, or finish it
	@$(if $(FOUND),"$(FOUND)" ops/setup.py "$(VENV)",echo 'Tellback needs Python 3.11, 3.12 or 3.13: install one, or name it: make PYTHON=...' >&2; exit 1)

debian: setup
	@"$(BIN)/python" ops/debian.py test

demo: setup ## run the end-to-end demo in an isolated instance
	@$(BIN)/tellback demo

unit: setup ## run the unit tests: no Redis, no browser, no model
	$(BIN)/python -m pytest -n 2 --dist worksteal $(QUICK) -m "not slow and not model and not browser and not bulk and not programs" -p no:celery -p no:docker_tools tests/unit

unit-all: setup ## run the unit tests on every supported Python of this machine
	@$(BIN)/python ops/unit_all.py

test: debian ## run the tests, all but the slow ones
	$(BIN)/python -m pytest -n 3 --dist worksteal $(QUICK)

slow: debian ## run the slow tests: many deaths, whole systems, whole files of transcripts, all examples of properties
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "slow or hypothesis"

simulate: debian ## play seeds of the simulation: `make simulate SEEDS=10000`
	$(BIN)/python -m tests.simulation --seeds $(or $(SEEDS),1000)

chaos: debian ## run the real system under faults and check it: `make chaos SEED=7 SECONDS=3600`
	$(BIN)/python -m tests.chaos --seed $(or $(SEED),0) --seconds $(or $(SECONDS),3600)

soak: debian ## run all loops under load and check that nothing grows: `make soak MINUTES=60`
	$(BIN)/python -m tests.soak --minutes $(or $(MINUTES),60)

proofs: setup ## check the models of the protocols with spin
	@$(BIN)/python ops/debian.py proofs
	@$(BIN)/python ops/proofs/run.py

lint: setup ## check style, types, layers and Lua scripts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	@$(BIN)/python ops/debian.py lint
	$(BIN)/python ops/lint_lua.py

generate: setup ## write the committed files that are made from code: calls of scripts, schemas, types of tellback.aio
	$(BIN)/python -m tellback.state.generate_scripts shared/tellback/state/scripts
	$(BIN)/python -m tellback.contracts.codec shared/tellback/contracts/schemas
	$(BIN)/python -m tellback.aio.stubs shared/tellback/aio/__init__.pyi
	$(BIN)/ruff check -q --fix-only --exit-zero $(GENERATED)
	$(BIN)/ruff format -q $(GENERATED)

bench: setup ## measure the ratios of the budgets
	$(BIN)/python -m benchmarks

sbom: setup ## write the bill of materials of what the image installs, build/sbom.cdx.json
	$(BIN)/python ops/sbom.py build/sbom.cdx.json

pins: setup ## write the pins of the images with their hashes, ops/pins
	$(BIN)/python ops/pins.py ops/pins

docs: setup ## build the documentation into site/
	$(BIN)/mkdocs build --strict

clean: ## remove .venv and all that is built
	rm -rf .venv .venv-* .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist site
