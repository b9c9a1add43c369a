PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
PYTEST := $(BIN)/python -m pytest -n auto

# Tests start hundreds of Python processes. Without compiled modules, each of them compiles what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup prerequisites demo test test-all test-slow test-cluster durations coverage check format lock bench-engine bench-lake bench-gateway bench-temp-tables bench-reaper bench-replicas drift-table format-docs chart-docs cluster cluster-down cluster-programs images soak clean

help: ## Show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 18

prerequisites:
	@PYTHON="$(PYTHON)" scripts/check-prerequisites

setup: prerequisites $(STAMP) ## Create .venv with everything that Lodge needs

$(STAMP): pyproject.toml constraints.txt
	@test -x $(BIN)/python || { echo "Creating $(VENV) ..."; "$(PYTHON)" -m venv $(VENV); }
	@echo "Installing Lodge and its pinned dependencies into $(VENV); Spark alone is about 450 MB, so this takes a few minutes ..."
	@$(BIN)/python -m pip install --disable-pip-version-check --quiet --progress-bar off --no-compile -c constraints.txt -e '.[dev]'
	@touch $@
	@echo "Installed."

demo: setup ## Start Lodge, run an example against it, and show what happens
	@$(BIN)/python examples/demo.py

test: check ## Run the checks and the quick tests, at most 6 minutes
	@$(PYTEST) --tier=quick

test-slow: setup ## Run only the slow tests; some need root and Go
	@$(PYTEST) --tier=slow

test-cluster: programs-if-go ## Of the slow tests, run only those that install the chart on real nodes, upgrade it, and lose nodes
	@$(BIN)/python -m pytest -s -m installation tests/installation

test-all: setup ## Run the checks and all tests, about an hour after the first time
	@scripts/test-all $(BIN)

.PHONY: programs-if-go
programs-if-go: setup
	@! command -v go >/dev/null || $(BIN)/python -m tests.cluster programs

durations: ## Copy the recorded durations of the last runs to the checkout
	@$(BIN)/python -m tests.running.durations

coverage: programs-if-go ## Run all tests and print the coverage of the product by lines and branches
	@rm -rf build/coverage && mkdir -p build/coverage
	@$(BIN)/python -m coverage run -m pytest -n auto -m 'not installation'
	@$(BIN)/python -m coverage combine --quiet && $(BIN)/python -m coverage report

check: setup ## Check format, lint, docstrings, spelling, types, and imports between packages
	@scripts/check $(BIN)

format: setup ## Format the source
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

lock: setup ## Update constraints.txt from pyproject.toml
	@$(BIN)/python -m pip freeze --exclude-editable | sed '/^pip==/d;/^setuptools==/d' > constraints.txt

bench-engine: setup ## Compare scans of files with other readers
	@$(BIN)/python benchmarks/scans.py

bench-lake: setup ## Compare scans of large directories through Lodge with Spark's own readers
	@$(BIN)/python -m benchmarks.lake

bench-gateway: setup ## Compare Spark Connect through Lodge with Spark alone, and with TLS and JWT
	@$(BIN)/python benchmarks/pass_through.py
	@$(BIN)/python -m benchmarks.secure_gateway

bench-temp-tables: setup ## Compare temporary tables with the same steps by hand
	@$(BIN)/python benchmarks/temporary_tables.py

bench-reaper: setup ## Measure the reaper on a test cluster (needs Go)
	@$(BIN)/python -m benchmarks.reaper

bench-replicas: setup ## Measure 10,000 sessions and 20 replicas: adoption, expiry, memory (needs Go)
	@$(BIN)/python -m benchmarks.replicas

drift-table: setup ## Update the table in docs/explanation/schema-drift.md
	@$(BIN)/python -m scripts.drift_table

format-docs: setup ## Update the options in docs/reference/formats.md
	@$(BIN)/python -m scripts.format_docs

chart-docs: setup ## Update docs/reference/chart-values.md
	@$(BIN)/python -m scripts.chart_values

cluster: setup ## Start a Kubernetes cluster in the background and print how to reach it (NODES=2: with two real nodes)
	@$(BIN)/python -m tests.cluster up --nodes $(or $(NODES),0)

cluster-down: setup ## Stop that cluster and remove its data
	@$(BIN)/python -m tests.cluster down

cluster-programs: setup ## Build the programs of the test cluster (needs Go)
	@$(BIN)/python -m tests.cluster programs

images: setup ## Build the container images without Docker into build/images (OPTIONS=--help)
	@$(BIN)/python -m images $(OPTIONS)

soak: setup ## Simulate histories (SEEDS=100000, or one: SEED=123), scan random directories (DIRECTORIES=10000), compare as many with Spark, read damaged files (DAMAGED=5000), attack a gateway (MINUTES=5), run Spark's SQL tests and random insertions (STATEMENTS=10000), break processes on each store (ROUNDS=50), then stop gateways (CYCLES=1000)
	@$(BIN)/python -m tests.simulation.run $(if $(SEED),--seed $(SEED) --lines 0,--seeds $(or $(SEEDS),100000))
	@$(if $(SEED),,$(BIN)/python -m tests.drift.random_directories --count $(or $(DIRECTORIES),10000))
	@$(if $(SEED),,$(BIN)/python -m tests.drift.beside_spark --count $(or $(DIRECTORIES),10000))
	@$(if $(SEED),,$(BIN)/python -m tests.foreign_files.damaged --count $(or $(DAMAGED),5000))
	@$(if $(SEED),,$(BIN)/python -m tests.gateway.fuzz 300)
	@$(if $(SEED),,$(BIN)/python -m tests.hostile --minutes $(or $(MINUTES),5))
	@$(if $(SEED),,$(BIN)/python -m tests.spark_sql_tests)
	@$(if $(SEED),,$(BIN)/python -m tests.gateway.tables.random_insertions --statements $(or $(STATEMENTS),10000))
	@$(if $(SEED),,for store in kubernetes files s3; do $(BIN)/python -m tests.chaos --rounds $(or $(ROUNDS),50) --store $$store || exit; done)
	@$(if $(SEED),,$(BIN)/python -m tests.chaos.stops --cycles $(or $(CYCLES),1000))

clean: ## Remove everything that the other targets created here
	rm -rf $(VENV) build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
