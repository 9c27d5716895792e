# Every target sets up .venv by itself; all that is needed is Python 3.11 or newer and make.
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help run test minimal lint docs serve bench clean

SHELL := /bin/sh
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
WORKERS ?= 2
BENCH ?= inference learning sequences collective map softlogic clusters
ARGS ?=

help: ## list the targets
	@grep -hE '^[a-z]+:.*## ' Makefile | sed -E 's/^([a-z]+):.*## (.*)/make \1|\2/' | awk -F'|' '{printf "%-12s %s\n", $$1, $$2}'

run: $(VENV)/.with-package $(VENV)/.compiled ## the tour: five systems at work, a table and a page with pictures
	@$(BIN)/intarsia tour --output report

test: $(VENV)/.with-test ## all tests, docstring examples and doc pages included
	@$(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

minimal: $(VENV)-minimal/.with-package ## contract, architecture and README tests with the run-time dependencies and pytest alone
	@PYTHONPATH=reproduction/src $(VENV)-minimal/bin/python -m pytest -q tests/contracts tests/architecture $(ARGS)

lint: $(VENV)/.with-lint ## ruff (lint and format) and mypy
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

docs: $(VENV)/.with-docs ## the documentation in site/, warnings are errors
	@$(BIN)/mkdocs build --strict --quiet
	@echo "Open site/index.html"

serve: $(VENV)/.with-docs ## the documentation on a local port, rebuilt at every change
	@$(BIN)/mkdocs serve

bench: $(VENV)/.with-package ## speed, memory and quality beside other libraries, each in an environment of its own
	@$(BIN)/python reproduction/setup_peers.py
	@for name in $(BENCH); do $(BIN)/intarsia bench $$name $(ARGS) || exit 1; done

clean: ## remove everything that was made here
	@rm -rf $(VENV) .venv-* site tour report build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@rm -rf src/intarsia/_compiled

# A missing extra shows here: nothing is installed but what `pip install intarsia` gives, and pytest.
$(VENV)-minimal/.with-package: $(VENV)/.created pyproject.toml
	@echo "Setting up $(VENV)-minimal ..."
	@$(BIN)/python -m venv --clear $(VENV)-minimal
	@$(VENV)-minimal/bin/python -m pip install -qq --disable-pip-version-check --editable . 'pytest>=8.2'
	@touch $@

# One stamp per extra, so that `make run` installs what the tour needs and a second run starts at once.
$(VENV)/.created:
	@for candidate in $(PYTHON) python3 python3.13 python3.12 python3.11 python; do \
	  if $$candidate -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "Intarsia needs Python 3.11 or newer, and none was found. Install one, or: make PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "Setting up $(VENV) with $$($$found --version) ..."; \
	$$found -m venv $(VENV)
	@touch $@

$(VENV)/.with-package: $(VENV)/.created pyproject.toml reproduction/pyproject.toml
	@echo "Installing Intarsia ..."
	@$(PIP) --editable . --editable reproduction
	@touch $@

$(VENV)/.with-%: $(VENV)/.created pyproject.toml reproduction/pyproject.toml
	@echo "Installing Intarsia with what '$*' needs ..."
	@$(PIP) --editable '.[$*]' --editable reproduction
	@touch $@

# Kernels compiled at installation, so that no first call has to; without them everything works, only later.
$(VENV)/.compiled: $(VENV)/.with-package $(wildcard src/intarsia/_kernels/*.py)
	@echo "Compiling kernels (about a minute, once) ..."
	@rm -rf src/intarsia/_compiled
	@$(BIN)/intarsia compile --jobs $(WORKERS)
	@touch $@
