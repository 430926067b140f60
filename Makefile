# The one door to this project: `make demo` shows it at work, `make test` runs everything CI runs.
# Needs Python 3.11 or newer. Java 17 or newer is used where there is one, and fetched where not.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11 python3.14,\
	$(shell $(name) -c 'import sys; sys.version_info >= (3, 11) and print("$(name)")' 2>/dev/null)))
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
PYTEST := $(BIN)/python -m pytest
# The tests that took longest are told at the end; the times of all are in build/durations, as JUnit writes them.
timed = --durations=25 --durations-min=1 --junitxml=build/durations/$(1).xml
MYPY := $(BIN)/mypy -p connect -p connectors -p api -p deploy -p tests
COMPILE := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-annotate --group build --custom-compile-command "make lock"

# So many processes run the unit tests, which only compute.
UNIT_PROCESSES ?= 2
# So many run the tests on brokers, which wait more than they work. Each has two clusters of its
# own, and takes 1.5 GB of memory.
TEST_PROCESSES ?= 4
# So many run the slow tests, which work harder.
SLOW_PROCESSES ?= 2

# For each decoder that is fuzzed.
FUZZ_SECONDS ?= 20

# The seeds of simulated runs: FIRST-LAST, or one.
SEEDS ?= 0-1000

# Runs a suite and adds a line to docs/contributing/test-runs.md. $(1): the suite; $(2): variables that choose what
# of it runs. The line names them, as it does those that tests read themselves (tests/runs/suites.py).
record = $(2) $(BIN)/python -m tests.runs record $(1) --
COUNTED_PYTEST := $(PYTEST) -p tests.runs.counts

RUNTIME_STAMP := $(VENV)/.installed
DEMO_STAMP := $(VENV)/.installed-for-demo
TEST_STAMP := $(VENV)/.installed-for-tests
DOCS_STAMP := $(VENV)/.installed-for-docs
# Where the headers of MIT krb5 are (libkrb5-dev), the tests of Kerberos get their package, too.
KERBEROS_STAMP := $(if $(shell command -v krb5-config 2>/dev/null),$(VENV)/.installed-for-kerberos)
# What the project itself is installed from; the compiled parts need a C compiler, and are left out without.
PROJECT := pyproject.toml setup.py $(wildcard connect/*/native/*)

.PHONY: help install install-test brokers demo demo-cluster demo-spark check test slow security bench faults fuzz \
	simulate mutants status golden docs lock lowest release audit clean
.DELETE_ON_ERROR:
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory
# Containers often set it. Every process that a test starts would then compile all modules again, which
# takes longer than the rest of its start.
unexport PYTHONDONTWRITEBYTECODE

help:
	@echo "make install  the commands (connect-mirror-maker, ...) in $(BIN)"
	@echo "make demo     two Kafka clusters and a mirror between them, until Ctrl-C (or DEMO_SECONDS)"
	@echo "make demo-cluster  three Connect workers share the mirror; their leader is killed; ends by itself"
	@echo "make demo-spark  on a Spark cluster that it starts: a backfill, the mirror, a synced config, a"
	@echo "              moved group, an audit, a tampered record; ends by itself"
	@echo "make check    lint, types and unit tests"
	@echo "make test     check, and the tests on real brokers but the slow ones: everything CI runs"
	@echo "make slow     the tests of half a minute to many minutes each, which make test leaves out"
	@echo "make security the tests of logins, TLS, roles, permissions and secrets, the slow ones too"
	@echo "make bench    rates, CPU and memory beside Java's MirrorMaker 2"
	@echo "make faults   the fault tests, the long ones too; with FAULT_SEED=5-12 (and FAULT_MINUTES=1,"
	@echo "              FAULT_FORM=dedicated, rest, spark or two-way) random schedules of faults, one"
	@echo "              seed after another, the same for the same seed, with a table at the end."
	@echo "              Random faults, in make slow too, need root, iproute2 and libfaketime (apt-get"
	@echo "              install iproute2 libfaketime), or FAULT_WITHOUT=clock,links,disks to leave"
	@echo "              some of them out"
	@echo "make fuzz     decoders of others' bytes, guided by coverage, each for FUZZ_SECONDS (20)"
	@echo "make simulate the real classes against simulated clusters and faults, by SEEDS=first-last"
	@echo "make mutants  put known defects back one by one: the simulator must find each"
	@echo "make status   which of slow, security, faults, fuzz, simulate, mutants and bench have not run since the code"
	@echo "              that they cover changed; docs/contributing/test-runs.md has their runs"
	@echo "make golden   ask Java for the files of tests/golden again; needs a JDK. GOLDEN=name: one of them"
	@echo "make docs     the documentation as a site in build/site; fails on a broken link"
	@echo "make lock     pin the newest versions of all dependencies"
	@echo "make lowest   the unit tests with the oldest versions that pyproject.toml allows"
	@echo "make release  build the sdist and the wheel of what is committed, and try them in a new environment"
	@echo "make audit    known vulnerabilities, licences and checksums of what is installed; the SBOM in dist"
	@echo "make clean    remove what was built here"

$(BIN)/python:
	@test -n "$(PYTHON)" && $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed; install one, or set PYTHON to it." >&2; exit 1; }
	@echo "Making $(VENV)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "$(PYTHON) cannot make a virtual environment; install its venv module (python3-venv on Debian)." >&2; exit 1; }

# $(1): the lock file. Pinned wheels first, then this project itself, without asking an index again.
define install_locked
	@echo "Installing what $(1) pins"
	@$(PIP) install --quiet --require-hashes -r $(1) && \
	$(PIP) install --quiet --no-deps --no-build-isolation -e . || \
	{ echo "The packages of $(1) could not be installed; check the network and try again." >&2; exit 1; }
endef

$(RUNTIME_STAMP): requirements.lock $(PROJECT) | $(BIN)/python
	$(call install_locked,requirements.lock)
	@touch $@

$(DEMO_STAMP): requirements-demo.lock $(PROJECT) | $(BIN)/python
	$(call install_locked,requirements-demo.lock)
	@touch $@

$(TEST_STAMP): requirements-test.lock $(PROJECT) | $(BIN)/python
	$(call install_locked,requirements-test.lock)
	@touch $@

$(DOCS_STAMP): requirements-docs.lock $(PROJECT) | $(BIN)/python
	$(call install_locked,requirements-docs.lock)
	@touch $@

install: $(RUNTIME_STAMP)
	@echo "Installed: $(BIN)/connect-mirror-maker"

install-test: $(TEST_STAMP) $(KERBEROS_STAMP)

# gssapi has no wheels for Linux: it is compiled, unoptimised, with the Cython that the test lock pins.
# pip keeps the wheel for other checkouts. Without it the tests of Kerberos are skipped, and say so.
$(VENV)/.installed-for-kerberos: requirements-kerberos.lock $(TEST_STAMP)
	@echo "Installing what $< pins"
	@if CFLAGS=-O0 $(PIP) install --quiet --require-hashes --no-build-isolation -r $<; then touch $@; \
	else echo "gssapi could not be installed: the tests of Kerberos are skipped." >&2; fi

# make install brings no packages for brokers; make install-test does.
brokers:
	@$(BIN)/python -c 'import jgo' 2>/dev/null || $(MAKE) --no-print-directory $(DEMO_STAMP)
	@$(BIN)/python -m deploy.brokers

# On a terminal the demo is a job of its own (set -m), so that Ctrl-C ends the demo and not make, and
# the exit status is the demo's.
demo: $(DEMO_STAMP)
	@if [ -t 0 ]; then set -m; fi; $(BIN)/python -m deploy.demo

demo-cluster: $(DEMO_STAMP)
	@if [ -t 0 ]; then set -m; fi; $(BIN)/python -m deploy.demo cluster

demo-spark: $(DEMO_STAMP)
	@if [ -t 0 ]; then set -m; fi; $(BIN)/python -m deploy.demo spark

check: install-test
	@$(PIP) check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	@echo "$(MYPY), beside the unit tests"
	@$(MYPY) & types=$$!; $(PYTEST) -q -n $(UNIT_PROCESSES) --dist worksteal $(call timed,unit) tests/unit; tests=$$?; \
	wait $$types && exit $$tests

test: check brokers
	$(PYTEST) -n $(TEST_PROCESSES) --dist worksteal $(call timed,brokers) -m "not slow" --ignore=tests/unit tests

slow: install-test brokers
	$(call record,slow) $(COUNTED_PYTEST) -n $(SLOW_PROCESSES) --dist worksteal -m slow --ignore=tests/unit tests

# A part of the tests of make check, test and slow, for whoever asks only about security.
SECURITY_TESTS := tests/unit/api/rest tests/unit/api/dedicated/test_internal_rest.py \
	$(addprefix tests/unit/api/cli/test_,mirror_client.py secret_logs.py) \
	$(addprefix tests/unit/test_,canaries.py connector_clients.py) tests/unit/deploy/test_audit.py \
	tests/unit/connect/clients/security tests/unit/connect/clients/config/test_sasl_properties.py \
	tests/unit/connect/clients/librdkafka/test_login_refusals.py tests/unit/connect/clients/wire/test_sasl.py \
	$(addprefix tests/unit/connect/config/test_,hostile_texts.py java_regex.py providers.py secrets.py vault.py) \
	tests/unit/connect/protocol/test_compression.py tests/unit/connect/runtime/test_loggers.py \
	tests/unit/connect/runtime/distributed/test_zombie_fencing.py \
	tests/unit/connectors/mirrormaker/test_permissions.py \
	$(addprefix tests/unit/connectors/spark/test_,connector_jars.py properties.py) \
	$(addprefix tests/integration/clients/test_,group_member.py kerberos.py refused_certificates.py \
	refused_logins.py rotated_certificates.py sasl_proxy.py signed_tokens.py wire_security.py) \
	$(addprefix tests/integration/connect/test_,internal_requests.py kerberos.py permissions_of_stored_configs.py \
	rotated_certificates.py secrets_in_logs.py standalone_process.py worst_patterns.py) \
	tests/integration/connect/sinks/test_sink_logins.py tests/integration/mirrormaker1/test_rotated_certificates.py \
	$(addprefix tests/integration/dedicated/test_,client_certificates.py internal_rest.py kerberos.py \
	sasl_sessions.py) \
	$(addprefix tests/integration/spark/test_spark_,rpc.py security.py) tests/integration/secrets \
	tests/compat/test_rotated_passwords.py \
	$(addprefix tests/compat/test_permissions,.py _asked.py _of_programs.py _on_old_brokers.py _taken_away.py)
security: install-test brokers
	$(call record,security) $(COUNTED_PYTEST) -n $(TEST_PROCESSES) --dist worksteal $(SECURITY_TESTS)

bench: install-test brokers
	$(call record,bench) $(BIN)/python -m tests.benchmarks

# Random schedules by their seeds: make faults FAULT_SEED=5-12 FAULT_MINUTES=1
# The tests read FAULT_SEED, FAULT_MINUTES, FAULT_FORM and FAULT_WITHOUT themselves.
faults: install-test brokers
	$(call record,faults) $(COUNTED_PYTEST) \
		$(if $(FAULT_SEED),tests/faults/test_random_schedules.py -k asked,tests/faults)

fuzz: install-test
	$(call record,fuzz,FUZZ_SECONDS=$(FUZZ_SECONDS)) $(BIN)/python -m tests.fuzz --seconds $(FUZZ_SECONDS)

# One world by its name: make simulate WORLD=copier SEEDS=17
simulate: install-test
	$(call record,simulate,WORLD=$(WORLD) SEEDS=$(SEEDS)) \
		$(BIN)/python -m tests.simulation --seeds $(SEEDS) $(if $(WORLD),--world $(WORLD))

# One world after another, where one run of all takes too long: make mutants WORLD=copier
mutants: install-test
	$(call record,mutants,WORLD=$(WORLD)) $(BIN)/python -m tests.simulation.mutants $(if $(WORLD),--world $(WORLD))

status: install-test
	@$(BIN)/python -m tests.runs status

golden: install-test brokers
	$(BIN)/python -m tests.golden $(GOLDEN)

# The first run also fetches the script that draws diagrams (16 MB, kept in the user's cache).
docs: $(DOCS_STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "Built: build/site/index.html"

lock: | $(BIN)/python
	@$(PIP) install --quiet --upgrade uv
	$(COMPILE) --upgrade --group brokers --group test pyproject.toml -o requirements-test.lock
	$(COMPILE) -c requirements-test.lock pyproject.toml -o requirements.lock
	$(COMPILE) --extra postgresql --extra msk --extra oauth --extra opentelemetry -c requirements-test.lock \
		-c requirements.lock pyproject.toml -o requirements-image.lock
	$(COMPILE) --group brokers -c requirements-test.lock pyproject.toml -o requirements-demo.lock
	$(COMPILE) --group spark-connect -c requirements-test.lock -o requirements-spark-connect.lock
	$(COMPILE) --group kerberos -c requirements-test.lock -o requirements-kerberos.lock
	$(COMPILE) --group audit -o requirements-audit.lock
	$(COMPILE) --group brokers --group docs -c requirements-test.lock pyproject.toml -o requirements-docs.lock

# An environment of its own, which stays. The tests and their tools are of the newest versions that go
# with the oldest of the product; no unit test needs schemathesis, whose old version only gets in the way.
LOWEST := build/lowest
lowest: | $(BIN)/python
	@$(PIP) install --quiet --upgrade uv
	@mkdir -p build
	@$(BIN)/uv pip compile --quiet --python-version 3.11 --resolution lowest-direct --no-emit-index-url \
		--no-annotate --no-header pyproject.toml -o build/lowest.txt
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(LOWEST)
	@$(BIN)/uv pip install --quiet --python $(LOWEST) -r build/lowest.txt
	@$(BIN)/uv pip install --quiet --python $(LOWEST) --constraint build/lowest.txt \
		--group brokers --group build --group test
	@$(BIN)/uv pip install --quiet --python $(LOWEST) --no-deps --no-build-isolation -e .
	$(LOWEST)/bin/python -m pytest -q -p no:schemathesis tests/unit

release: install-test
	$(BIN)/python -m deploy.release

# pip-audit has an environment of its own: the project needs none of its packages. Without a network it
# cannot be installed, or cannot look; deploy.audit then says so and ends with 3.
AUDIT := build/audit
audit: install-test
	@test -x $(AUDIT)/bin/pip-audit || { $(BIN)/python -m venv --clear $(AUDIT) && \
		$(AUDIT)/bin/python -m pip --disable-pip-version-check --no-input install --quiet --require-hashes \
		-r requirements-audit.lock; } || true
	$(BIN)/python -m deploy.audit --pip-audit $(AUDIT)/bin/pip-audit --sbom dist/sbom.cdx.json

# The downloaded brokers stay: they are in the user's cache, shared by all checkouts.
clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	rm -f connect/*/_native.*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
