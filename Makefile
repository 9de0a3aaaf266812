# Everything a developer or a curious user does. `make` alone explains the targets.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
OUT ?= proto/gen
ENV_FILE ?= .env
# More than cores: most tests wait for other processes.
TEST_PROCESSES ?= 3

.DEFAULT_GOAL := help
.PHONY: help run test stack stack-test growth-test bench fuzz lint types format proto clean programs prometheus azurite

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: $(VENV)/server ## Run Towpath with a demo repository; Ctrl-C stops it
	$(BIN)/towpath up --demo

test: $(VENV)/dev programs prometheus azurite ## Run all tests; ARGS="tests/unit -k lock" runs some
	$(BIN)/pytest --numprocesses=$(TEST_PROCESSES) --dist=worksteal $(ARGS)

stack: $(ENV_FILE) ## Build the image and run the stack of compose.yaml; needs Docker with compose
	sh deploy/new-secrets.sh "$${TOWPATH_SECRETS:-$$(sed -n 's/^TOWPATH_SECRETS=//p' $(ENV_FILE))}"
	docker compose --env-file $(ENV_FILE) up --build --detach --wait

stack-test: $(VENV)/dev programs ## Run the stack as a project of its own, and the drills on it
	$(BIN)/pytest tests/stack -m "not growth" --timeout=900 $(ARGS)

growth-test: $(VENV)/dev programs ## The same for what a site grows into: an object store, and several of each
	$(BIN)/pytest tests/stack -m growth --timeout=900 $(ARGS)
	$(BIN)/pytest tests/e2e/test_races.py tests/e2e/test_crashes.py --storage=s3 --hosts=2

$(ENV_FILE):
	cp .env.example $@

bench: $(VENV)/bench programs ## Measure Towpath beside its peers, for some hours; ARGS="--quick" sees that it works
	$(BIN)/python -m benchmarks.speed --keep $(VENV)/peers $(ARGS)

fuzz: $(VENV)/dev ## Search the served HTTP interface for answers off its schema, for ten minutes
	TOWPATH_FUZZ_SECONDS=600 $(BIN)/pytest tests/contract/test_openapi.py --timeout=1200

lint: $(VENV)/dev types ## Check style, imports between services, and the .proto files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	cd proto && ../$(BIN)/buf lint
	sh proto/breaking.sh $(BIN)/buf

types: $(VENV)/dev ## Check types
	$(BIN)/mypy

format: $(VENV)/dev ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

proto: $(VENV)/dev ## Generate the stubs of the .proto files into OUT
	$(BIN)/python proto/generate.py $(OUT)

clean: ## Remove the virtual environment and all caches, but no data
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# A marker file for each set of packages; newer settings install again.
$(VENV)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/server: $(VENV)/python pyproject.toml
	$(BIN)/pip install --quiet --editable '.[server,embedded]'
	@touch $@

$(VENV)/dev: $(VENV)/server pyproject.toml
	$(BIN)/pip install --quiet --editable '.[server,embedded,tracing]' --group dev
	@touch $@

$(VENV)/bench: $(VENV)/dev pyproject.toml
	@sh tests/support/install.sh wrk curl
	$(BIN)/pip install --quiet --group bench
	@touch $@

# The tests run the real client, which they cannot do without, real proxies, and the tool of the benchmarks; any package
# manager is asked for them.
programs:
	@sh tests/support/install.sh git git-lfs
	@sh tests/support/install.sh nginx caddy || echo "the tests with a proxy that is missing are skipped" >&2
	@sh tests/support/install.sh wrk || echo "the tests of the benchmarks with wrk are skipped" >&2

# The alerts and the dashboard are tried on a real one; where it cannot be had, those tests are skipped.
prometheus: $(VENV)/python
	@command -v promtool >/dev/null || test -x $(BIN)/promtool || sh tests/support/install-prometheus.sh $(BIN) || true

# Azure's blobs for one host, from npm; where that cannot be had, those tests are skipped.
azurite: $(VENV)/python
	@sh tests/support/install.sh npm || true
	@test -d $(VENV)/azurite/node_modules/azurite || sh tests/support/install-azurite.sh $(VENV)/azurite || true
