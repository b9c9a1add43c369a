PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help setup prerequisites demo test check format lock bench-engine bench-gateway bench-temp-tables bench-reaper drift-table format-docs cluster cluster-down cluster-programs soak clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

prerequisites:
	@PYTHON="$(PYTHON)" scripts/check-prerequisites

setup: prerequisites $(STAMP) ## Make .venv with everything Lodge needs

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Making $(VENV) ..."; "$(PYTHON)" -m venv $(VENV); }
	@echo "Installing Lodge and its pinned dependencies into $(VENV); Spark alone is about 450 MB, so this takes a few minutes ..."
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --progress-bar off -c constraints.txt -e '.[dev]'
	@touch $@
	@echo "Installed."

demo: setup ## Start Lodge, run examples/amount_by_discount.py against it, and show what happened
	@$(BIN)/python examples/demo.py

test: check ## Run the checks and all tests
	@! command -v go >/dev/null || $(BIN)/python -m tests.cluster programs || true
	@$(BIN)/python -m pytest -n 2

check: setup ## Format, lint, types, and the arrows between packages
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

format: setup ## Put the source into shape
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: setup ## Write constraints.txt anew from pyproject.toml
	@$(BIN)/python -m pip freeze --exclude-editable | sed '/^pip==/d;/^setuptools==/d' > constraints.txt

bench-engine: setup ## Compare scans of files with other readers, in process and through Spark
	@$(BIN)/python benchmarks/scans.py

bench-gateway: setup ## Compare Spark Connect through Lodge with Spark Connect alone
	@$(BIN)/python benchmarks/pass_through.py

bench-temp-tables: setup ## Compare temporary tables with the same done by hand
	@$(BIN)/python benchmarks/temporary_tables.py

bench-reaper: setup ## Compare the reaper with what is configured, and with peers, on a test cluster (needs Go)
	@$(BIN)/python -m benchmarks.reaper

drift-table: setup ## Write the table of docs/explanation/schema-drift.md anew: Lodge and others, side by side
	@$(BIN)/python -m scripts.drift_table

format-docs: setup ## Write the options in docs/reference/formats.md anew from the code
	@$(BIN)/python -m scripts.format_docs

cluster: setup ## Start a Kubernetes API of your own in the background, and print how to reach it
	@$(BIN)/python -m tests.cluster up

cluster-down: setup ## End it and leave nothing of it
	@$(BIN)/python -m tests.cluster down

cluster-programs: setup ## Build the programs of the test cluster, which the first test run does otherwise (needs Go)
	@$(BIN)/python -m tests.cluster programs

soak: setup ## Simulate many histories (SEEDS=100000), or replay one (SEED=123); then break real processes (ROUNDS=50)
	@$(BIN)/python -m tests.simulation.run $(if $(SEED),--seed $(SEED) --lines 0,--seeds $(or $(SEEDS),100000))
	@$(if $(SEED),,$(BIN)/python -m tests.chaos --rounds $(or $(ROUNDS),50))

clean: ## Remove what the other targets made here
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
