# Everything a developer or a curious user does. `make` alone explains the targets.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for python in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$python && break; done)
VERSION := $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' pyproject.toml)
OUT ?= proto/gen
DIST ?= dist
SITE ?= build/site
ENV_FILE ?= .env
# More than cores: most tests wait for other processes.
TEST_PROCESSES ?= 4
# Files that share what they start stay on one worker, and the longest come first (tests/conftest.py).
PYTEST = $(BIN)/pytest --numprocesses=$(TEST_PROCESSES) --no-loadscope-reorder
# Without bytecode each start of Python compiles Towpath again, and the tests start it a thousand times.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help run quick check test drill coverage stack stack-test growth-test bench fuzz lint types format site lock sbom proto contract reference image dist clean programs drill-programs

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# A shell that stays beside it passes on what stops make. Of a failure make would print a line of its own, below the one
# that says why; so it is ended as by Ctrl-C, of which it prints none.
run: $(VENV)/server ## Run Towpath with a demo repository, Ctrl-C stops it; ARGS="--listen 127.0.0.1:8090" adds options
	@$(BIN)/towpath up --demo $(ARGS) & towpath=$$!; trap 'kill $$towpath 2>/dev/null' INT TERM; \
	while wait $$towpath; status=$$?; kill -0 $$towpath 2>/dev/null; do :; done; \
	test $$status = 0 || kill -INT $$PPID

quick: $(VENV)/dev ## Check style and run the unit tests, in a minute
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(PYTEST) tests/unit --ignore=tests/unit/project -m "not drill" $(ARGS)

check: lint ## Check style, types, imports and the texts of the project too, in minutes
	$(PYTEST) tests/unit -m "not drill" $(ARGS)

test: $(VENV)/dev programs ## Run the tests, about 15 minutes on two cores; ARGS="tests/unit -k lock" runs some
	@echo "The tests take about 15 minutes on two cores." >&2
	$(PYTEST) -m "not drill" $(ARGS)
	@echo "Left to make drill: all of make stack-test and make growth-test, and parts of" >&2
	@grep -rl --include='*.py' 'mark\.drill' $(or $(filter tests/%,$(ARGS)),tests) >&2 || true

drill: $(VENV)/dev programs drill-programs ## Run what takes long: kills, floods, gigabytes, each proxy; PART=K/N a part
	$(PYTEST) -m drill $(if $(PART),--part=$(PART)) $(ARGS)

coverage: ## Run the tests, and print the branch coverage of services/, which is at least 92 %
	$(MAKE) test ARGS='--cov --cov-report=term $(ARGS)'

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

bench: $(VENV)/bench drill-programs ## Measure Towpath beside its peers, for some hours; ARGS="--quick" sees that it works
	$(BIN)/python -m benchmarks.speed --keep $(VENV)/peers $(ARGS)

fuzz: $(VENV)/dev ## Search the served HTTP interface for answers off its schema, for ten minutes
	TOWPATH_FUZZ_SECONDS=600 $(BIN)/pytest tests/protocol/test_openapi.py --timeout=1200

lint: $(VENV)/dev types ## Check style, types, imports between services, the .proto files, and what deploys Towpath
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/buf lint proto
	sh proto/breaking.sh $(BIN)/buf
	@sh tests/support/install-helm.sh $(BIN) || true
	sh deploy/lint.sh $(BIN)

site: $(VENV)/dev ## Build the site of docs/ into SITE/site; a link that leads nowhere fails it
	$(BIN)/python deploy/site/stage.py $(SITE)
	zensical="$(abspath $(BIN))/zensical" && cd $(SITE) && "$$zensical" build --strict

types: $(VENV)/dev ## Check types
	$(BIN)/mypy

format: $(VENV)/dev ## Format the code and mend what can be mended
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What each installation gets, to the byte. All lists have the versions of the longest one.
COMPILE = $(BIN)/uv pip compile --quiet --universal --generate-hashes --no-annotate \
	--custom-compile-command "make lock" $(ARGS) pyproject.toml
lock: $(VENV)/lock ## Write requirements/ anew from pyproject.toml; ARGS=--upgrade takes the newest versions
	$(COMPILE) --extra server --extra embedded --extra tracing --group build --group dev --output-file requirements/dev.txt
	$(COMPILE) --extra server --extra embedded --group build --constraints requirements/dev.txt \
		--output-file requirements/run.txt
	$(COMPILE) --extra server --extra tracing --constraints requirements/dev.txt --output-file requirements/image.txt
	for group in build bench lock docs; do \
		$(subst pyproject.toml,,$(COMPILE)) --group $$group --constraints requirements/dev.txt \
			--output-file requirements/$$group.txt || exit 1; done

sbom: $(VENV)/dev ## Write what the image and the package are made of into DIST, as CycloneDX JSON
	mkdir -p $(DIST)
	for kind in image package; do \
		$(BIN)/python -m release.sbom $$kind $(DIST)/towpath-$(VERSION)-$$kind.cdx.json || exit 1; done

proto: $(VENV)/dev ## Generate the stubs of the .proto files into OUT
	$(BIN)/python proto/generate.py $(OUT)

contract: $(VENV)/dev ## Keep the .proto files as those of this version, which `make lint` compares with from then on
	$(BIN)/buf build proto --exclude-source-info --output proto/released/$(VERSION).binpb

reference: $(VENV)/dev ## Write the pages of docs/reference anew from the code
	$(BIN)/python -m release.reference

BUILD_IMAGE = docker build --build-arg VERSION=$(VERSION) --build-arg REVISION=$$(git rev-parse HEAD) $(ARGS)
image: ## Build the images towpath:VERSION and towpath-sshd:VERSION; needs Docker. ARGS="--build-arg PYTHON=..." names the base
	$(BUILD_IMAGE) --target towpath --tag towpath:$(VERSION) .
	$(BUILD_IMAGE) --target sshd --tag towpath-sshd:$(VERSION) .

dist: $(VENV)/server ## Build the wheel and the sdist of the last commit into DIST: the same bytes wherever that is done
	sh release/dist.sh $(BIN)/python $(DIST)

clean: ## Remove the virtual environment and all caches, but no data
	rm -rf $(VENV) .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Readable by all, whatever the umask is: root runs Towpath as another user. Only a terminal shows pip's own progress.
PIP_INSTALL = umask 022; test -t 2 || quiet=--quiet; $(BIN)/python -m pip install $$quiet
# Nothing but what requirements/ lists, by its hash.
LISTED = $(PIP_INSTALL) --require-hashes --requirement requirements/$(1).txt >&2
# Towpath itself, built by what was installed so.
ITSELF = $(PIP_INSTALL) --no-deps --no-build-isolation --no-index --editable . >&2

# A marker file for each set of packages; newer settings install again.
$(VENV)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	@echo "Installing into $(VENV), which is done once, and takes about a minute and a half ..." >&2
	@umask 022 && $(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/server: $(VENV)/python pyproject.toml requirements/run.txt
	@echo "Installing what Towpath needs (50 packages, about a minute) ..." >&2
	@$(call LISTED,run)
	@$(ITSELF)
	@touch $@

$(VENV)/dev: $(VENV)/server requirements/dev.txt
	@echo "Installing what the tests and checks need (about a minute) ..." >&2
	@$(call LISTED,dev)
	@touch $@

$(VENV)/lock: $(VENV)/dev requirements/lock.txt
	@$(call LISTED,lock)
	@touch $@

$(VENV)/bench: $(VENV)/dev requirements/bench.txt
	@sh tests/support/install.sh $(BIN) wrk curl
	@$(call LISTED,bench)
	@touch $@

# The tests run the real client, a real proxy, a real Prometheus and a real browser. What cannot be had is listed, with the
# tests that are skipped without it.
programs: $(VENV)/dev
	@sh tests/support/install.sh $(BIN) git git-lfs gcc openssl nginx pgbouncer hg prometheus sshd npm chromium chromedriver || true
	@test -d $(VENV)/oidc-provider/node_modules/oidc-provider || \
		sh tests/support/install-oidc-provider.sh $(VENV)/oidc-provider || true
	@$(BIN)/python -m tests.support.programs

# The drills run other proxies, a large identity provider, Azure's blobs for one host and another server of the protocol.
drill-programs: programs
	@sh tests/support/install.sh $(BIN) caddy haproxy apache2 wrk || true
	@test -d $(VENV)/keycloak || sh tests/support/install-keycloak.sh $(VENV)/keycloak || true
	@test -d $(VENV)/azurite/node_modules/azurite || sh tests/support/install-azurite.sh $(VENV)/azurite || true
	@sh tests/support/install-lfs-test-server.sh $(BIN) || true
	@$(BIN)/python -m tests.support.programs drills
