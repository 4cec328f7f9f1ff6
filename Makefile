# Tidemark: every command a developer needs. Plain POSIX shell, GNU make 3.81 or newer.

SHELL := /bin/sh
.DEFAULT_GOAL := help

VENV  := .venv
BIN   := $(VENV)/bin
STAMP := $(VENV)/.stamp
DEMO_STAMP := $(VENV)/.stamp-demo
CLASSES := $(VENV)/spark.jsa
LOCKS := deploy/requirements
DIST  := dist
NODE  := node_modules/.bin
NODE_STAMP := node_modules/.stamp
PAGE  := 'controller/server/page/static/*.{js,css}' 'tests/controller/server/page/*.js' eslint.config.js package.json tsconfig.json

# PYTHON=/path/to/python names the interpreter to try first; ARGS reaches the command that a target runs.
PYTHON ?=
JAVAC  ?= $(shell command -v javac)
# Debian keeps PostgreSQL's programs off PATH.
INITDB ?= $(firstword $(shell command -v initdb) $(wildcard /usr/lib/postgresql/*/bin/initdb))
CHROMIUM ?= $(shell command -v chromium-headless-shell)
PROMETHEUS   ?= $(and $(shell command -v prometheus),$(shell command -v promtool))
CURL         ?= $(shell command -v curl)
NPM          ?= $(and $(shell command -v node),$(shell command -v npm))
# Or what brings it, where this Debian is older; see tests/support/lowest_versions.py.
NEWEST_PYTHON ?= $(or $(shell command -v python3.14),$(and $(shell command -v debootstrap),$(shell command -v patchelf)))
# Says whether what is installed is started.
POLICY       ?= /usr/sbin/policy-rc.d
ALERTMANAGER ?= $(and $(shell command -v prometheus-alertmanager),$(shell command -v amtool))
ARGS   ?=
SPARK  ?=
# The releaser's SSH key, or its public half where an agent has it.
SIGN_KEY ?=
IMAGES    := Dockerfile deploy/compose/job.Dockerfile deploy/compose/compose.yaml
DIGEST_OF ?= docker buildx imagetools inspect --format '{{.Manifest.Digest}}'

# Where the environment forbids byte code, each process of the tests would compile every file again.
unexport PYTHONDONTWRITEBYTECODE

PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

# Installs the lock file $(1), and Tidemark itself from this folder. uv takes a third of pip's time; pip knows mirrors,
# certificates and machines that uv does not. The build tools come first, so that nothing unpinned is fetched to build
# PySpark, which comes as source. It is mostly jars: to compress them again would only take time.
define INSTALL
@$(FIND_PYTHON); \
if ! $(BIN)/python -c 'import sys, pip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then \
	echo "making $(VENV) with $$python"; \
	"$$python" -m venv --clear $(VENV) || exit 1; \
fi
@echo "installing the $$(grep -c '==' $(LOCKS)/$(1)) packages of $(LOCKS)/$(1) into $(VENV) (a minute or two the first time)"
@$(PIP) install --require-hashes --only-binary :all: -r $(LOCKS)/uv.txt || true
@install() { \
	$(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation \
		--config-settings-package pyspark:--build-option=--compression=stored "$$@" || { \
		echo "uv cannot install this here, so pip does it, which takes minutes"; \
		$(PIP) install --no-deps --no-build-isolation "$$@"; \
	}; \
}; \
install --require-hashes -r $(LOCKS)/build.txt && \
install --require-hashes -r $(LOCKS)/$(1) && \
install --editable .
@$(BIN)/python -m tidemark.spark_jobs.spark.java 2>/dev/null || { \
	echo "no Java 17 or newer here: installing a Java runtime into $(VENV) ($(LOCKS)/java.txt)"; \
	$(PIP) install --require-hashes --only-binary :all: -r $(LOCKS)/java.txt; \
	$(BIN)/python -m tidemark.spark_jobs.spark.java || true; \
}
endef

# Sets $$python to the first interpreter that is new enough, or says what was found and what to do.
FIND_PYTHON = python=; found=; \
	for candidate in $(PYTHON) python3 python3.14 python3.13 python3.12 python3.11; do \
		version=$$("$$candidate" -c 'import sys; print("%d.%d.%d" % tuple(sys.version_info[:3]))' 2>/dev/null) || continue; \
		if "$$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then python=$$candidate; break; fi; \
		found="$$found$${found:+, }$$candidate is $$version"; \
	done; \
	if [ -z "$$python" ]; then \
		echo "Tidemark needs Python 3.11 or newer; found: $${found:-none}. Install one, or name it: make PYTHON=/path/to/python3.11" >&2; \
		exit 1; \
	fi

.PHONY: help venv demo test test-fast test-long soak test-spark smoke lowest matrix operators lint lint-python lint-types lint-page site format mutants bench bench-policy benchmark figure migration lock arm audit images archive jar wheel release manifests docs picture tools cluster jars services clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | awk -F'|' '{ printf "%-18s %s\n", $$1, $$2 }'

venv: $(STAMP) ## make .venv, with .venv/bin/tidemark as the command

$(STAMP): pyproject.toml setup.py $(LOCKS)/build.txt $(LOCKS)/uv.txt $(LOCKS)/dev.txt $(LOCKS)/java.txt
	$(call INSTALL,dev.txt)
	@touch $(STAMP) $(DEMO_STAMP)

$(DEMO_STAMP): pyproject.toml setup.py $(LOCKS)/build.txt $(LOCKS)/uv.txt $(LOCKS)/demo.txt $(LOCKS)/java.txt
	$(call INSTALL,demo.txt)
	@touch $(DEMO_STAMP)

demo: $(DEMO_STAMP) ## run the whole loop on a real Spark stream (ARGS="--keep")
	@$(BIN)/tidemark demo $(ARGS)

# All tests that need Spark run in one process and share its session; other files stay whole, with their servers. They
# run in the order in which tests/conftest.py puts them; left to itself, pytest-xdist would begin the longest last.
# Four processes for two cores: much of a test's time is waiting for triggers and other programs.
# Three for those that hardly wait: each process collects all tests first.
# A process that dies is not replaced: with pytest-xdist 3.8 the run could then wait for ever (its issue 1378).
PYTEST := $(BIN)/pytest --dist loadscope --no-loadscope-reorder --max-worker-restart 0

# The tests' JVMs start in half the time with it, and without it where it cannot be made.
$(CLASSES): $(STAMP)
	@PYTHONPATH=tests $(BIN)/python -m support.class_archive $@ >/dev/null 2>&1 || true

test: $(CLASSES) ## run every test that is not marked long or soak, in four processes
	@$(PYTEST) --numprocesses 4 --session-timeout 3600 -m "not long" $(ARGS)

test-long: $(CLASSES) ## run the tests that are marked long, which CI does too
	@$(PYTEST) --numprocesses 4 --session-timeout 3600 -m long $(ARGS)

test-fast: $(STAMP) ## run the tests that are not marked slow, in three processes
	@$(PYTEST) --numprocesses 3 -m "not slow" $(ARGS)

soak: $(CLASSES) ## run the long tests: chaos, a simulated week, repeats; writes their tables in docs/explanation/proof.md
	@$(PYTEST) --numprocesses 4 -m "soak or fault" --junitxml=build/soak.xml $(ARGS); status=$$?; \
	[ -n "$(ARGS)" ] || { PYTHONPATH=tests $(BIN)/python -m support.faults; PYTHONPATH=tests $(BIN)/python -m support.proof; }; \
	exit $$status

# Each version has an environment of its own under build/; see tests/support/spark_versions.py.
test-spark: $(STAMP) ## compare ledger and sink on another version of Spark (SPARK=3.5.9)
	@PYTHONPATH=tests $(BIN)/python -m support.spark_versions "$(SPARK)" $(ARGS)

smoke: $(STAMP) ## the same in brief on three versions of Spark, as CI does
	@PYTHONPATH=tests $(BIN)/python -m support.spark_versions --brief

lowest: $(STAMP) ## install each extra with the lowest versions it declares, on the oldest and the newest Python; import and try it
	@PYTHONPATH=tests $(BIN)/python -m support.lowest_versions

matrix: $(STAMP) ## the same on every version that is supported, then every front end, also in a cluster; writes docs/reference/spark.md
	@PYTHONPATH=tests $(BIN)/python -m support.spark_versions
	@PYTHONPATH=tests $(BIN)/python -m support.front_ends
	@PYTHONPATH=tests $(BIN)/python -m support.spark_cluster
	@$(MAKE) --silent docs

operators: $(STAMP) ## what every version of Spark does at each stateful operator; writes docs/reference/operators.md
	@PYTHONPATH=tests $(BIN)/python -m support.spark_versions --operators
	@$(MAKE) --silent docs

lint: lint-python lint-types lint-page site ## all that CI checks of the code itself; `.pre-commit-config.yaml` runs the same

lint-python: $(STAMP) ## ruff, and its format
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

# mypy sees the folders under the names users import, through links.
lint-types: $(STAMP) ## mypy (strict)
	@rm -rf build/typecheck && mkdir -p build/typecheck/tidemark
	@for folder in models controller spark_jobs; do ln -s "../../../$$folder" build/typecheck/tidemark/; done
	@$(BIN)/mypy -p tidemark
	@$(BIN)/mypy tests docs/conf.py

# The types of the controller's answers are made from its OpenAPI document. CI must not skip this.
lint-page: ## ESLint, Prettier, tsc (strict) and unit tests for the page's code
ifeq ($(NPM),)
	@echo "lint-page: there is no Node.js with npm here, so the page's code is not checked; \`make services\` installs them" >&2; \
	[ "$$CI" != true ]
else
	@$(MAKE) --silent $(NODE_STAMP)
	@$(NODE)/eslint controller/server/page tests/controller/server/page
	@$(NODE)/prettier --check --log-level warn $(PAGE)
	@mkdir -p build/page
	@$(NODE)/openapi-typescript controller/openapi.json --root-types --root-types-no-schema-prefix \
		--output build/page/api.d.ts >/dev/null
	@$(NODE)/tsc
	@node --test tests/controller/server/page/*.test.js >build/page/tests.txt || { cat build/page/tests.txt; exit 1; }
endif

# Nothing is fetched; what draws is a package of package-lock.json.
site: $(STAMP) ## the documents as a site in build/site, with a search and llms.txt; every link and page is checked
ifeq ($(NPM),)
	@echo "site: there is no Node.js with npm here, so the site is not built; \`make services\` installs them" >&2; \
	[ "$$CI" != true ]
else
	@$(MAKE) --silent $(NODE_STAMP)
	@rm -rf build/site
	@$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going -b html -c docs -d build/site-cache . build/site
endif

$(NODE_STAMP): package.json package-lock.json .npmrc
	@npm ci --loglevel=error
	@touch $@

format: $(STAMP) ## format the code and mend what ruff and ESLint can
	@$(BIN)/ruff check --fix-only .
	@$(BIN)/ruff format .
	@[ ! -e $(NODE_STAMP) ] || { $(NODE)/eslint --fix controller/server/page tests/controller/server/page; $(NODE)/prettier --write --log-level warn $(PAGE); }

mutants: $(STAMP) ## change the pure core a line at a time and print what no test notices; an hour (ARGS="models/rollout --minutes 20")
	@PYTHONPATH=tests $(BIN)/python -m support.mutants $(ARGS)

bench: $(STAMP) ## run the benches (tests/bench/bench_*.py) and print their figures
	@$(BIN)/pytest tests/bench -o python_files='bench_*.py' -m bench -s $(ARGS)

bench-policy: $(STAMP) ## the live policy beside its yardsticks, over hours; goes on where it stopped (ARGS=--quick: minutes)
	@PYTHONPATH=tests $(BIN)/python -m support.policy_bench $(ARGS)

# Flink has an environment of its own; where it cannot be had, the tables are without it.
benchmark: $(STAMP) ## Spark, Spark with Tidemark and Flink on one stream of Kafka's; twenty minutes (ARGS="day --record": an hour)
	@[ build/flink/.ready -nt tests/bench/nexmark/requirements.txt ] || { \
		echo "installing Flink into build/flink (a minute or two)"; \
		$(BIN)/python -m venv --clear build/flink && build/flink/bin/python -m pip --disable-pip-version-check --quiet \
			install -r tests/bench/nexmark/requirements.txt && touch build/flink/.ready; \
	} || true
	@PYTHONPATH=tests $(BIN)/python -m bench.nexmark $(ARGS)

figure: $(STAMP) ## write docs/lookback.svg, and docs/day-*.svg and .png from the day that `make benchmark ARGS="day --record"` recorded
	@PYTHONPATH=tests $(BIN)/python -m support.lookback_figure
	@PYTHONPATH=tests $(BIN)/python -m bench.nexmark.figure

migration: $(STAMP) ## write the first migration from the tables; until 0.1 is released
	@PYTHONPATH=tests $(BIN)/python -m support.first_migration

UV_COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-header $(ARGS)

lock: $(STAMP) ## remake the lock files (ARGS=--upgrade for newer versions)
	@$(UV_COMPILE) pyproject.toml --all-extras --group dev -o $(LOCKS)/dev.txt
	@$(UV_COMPILE) pyproject.toml --extra controller --extra postgres --extra openlineage -c $(LOCKS)/dev.txt -o $(LOCKS)/controller.txt
	@$(UV_COMPILE) pyproject.toml --extra spark -c $(LOCKS)/dev.txt -o $(LOCKS)/spark.txt
	@$(UV_COMPILE) pyproject.toml --extra spark --extra kafka -c $(LOCKS)/dev.txt -o $(LOCKS)/job.txt
	@$(UV_COMPILE) pyproject.toml --extra demo -c $(LOCKS)/dev.txt -o $(LOCKS)/demo.txt
	@$(UV_COMPILE) --group build -c $(LOCKS)/dev.txt -o $(LOCKS)/build.txt
	@$(UV_COMPILE) --group uv -c $(LOCKS)/dev.txt -o $(LOCKS)/uv.txt
	@$(UV_COMPILE) --group release -o $(LOCKS)/release.txt
	@$(UV_COMPILE) --group java -o $(LOCKS)/java.txt
	@$(MAKE) --silent arm

# PySpark is source on every machine, and its jars hold the native libraries of both.
arm: $(STAMP) ## fail where a locked package of what users run has no wheel for Linux on arm64 (asks the index)
	@for python in 3.11 3.14; do \
		$(BIN)/uv pip install --quiet --dry-run --no-deps --only-binary :all: --no-binary pyspark --target build/arm64 \
			--python-platform aarch64-unknown-linux-gnu --python-version $$python \
			$(patsubst %,-r $(LOCKS)/%.txt,build controller demo java job uv) || exit 1; \
	done

audit: $(STAMP) ## known vulnerabilities of all locked packages (ARGS reaches pip-audit); says so when nothing can be learnt
	@PYTHONPATH=tests $(BIN)/python -m support.audit $(ARGS)

# The docker of who releases asks the registry. A digest names the images of all architectures.
images: ## pin the base images of Dockerfiles and Compose file by the digests of today (needs docker and its registry)
	@for image in $$(sed -nE 's/^(FROM| *image:) ([a-z/]+:[0-9v][^ @]*).*/\2/p' $(IMAGES) | sort -u); do \
		digest=$$($(DIGEST_OF) "$$image") || exit 1; \
		echo "$$image@$$digest"; \
		sed -i.before -E "s#$$image(@sha256:[0-9a-f]+)?#$$image@$$digest#" $(IMAGES) || exit 1; \
	done; \
	rm -f $(IMAGES:=.before)

archive: $(STAMP) ## dist/tidemark-pyfiles.zip for spark-submit --py-files
	@PYTHONPATH=tests $(BIN)/python -m support.archive $(DIST)/tidemark-pyfiles.zip

# Against the Spark of SPARK_HOME or .venv, or another version: what javac makes depends on its Scala alone.
jar: $(STAMP) ## spark_jobs/spark/jars/tidemark-spark_2.13-*.jar (SPARK=3.5.9: _2.12) and dist/maven; needs a JDK
	@python=$(BIN)/python; \
	if [ -n "$(SPARK)" ]; then \
		SPARK_HOME=; python=$$(PYTHONPATH=tests $(BIN)/python -m support.spark_versions --python "$(SPARK)") || exit; \
	fi; \
	PYTHONPATH=tests $$python -m support.jar_build $(DIST)/maven

# The wheel is built from the sdist, so that neither holds what the other lacks.
wheel: $(STAMP) ## dist/tidemark_streaming-*.whl and the sdist, with the jars for both versions of Scala
	@SPARK_HOME= $(MAKE) --silent jar SPARK=
	@$(MAKE) --silent jar SPARK=3.5.9
	@$(BIN)/python -m build --quiet --no-isolation --outdir $(DIST) .

# What is published, from nothing, and tried apart from this tree; see tests/support/release.py.
release: $(STAMP) ## wheel, sdist, jars, chart, archive, SBOM, provenance, checksums and signature (SIGN_KEY=) in dist, tried; needs a JDK
	@! grep -HnE '^(FROM| *image:) [a-z/]+:[0-9v][^@]*$$' $(IMAGES) || \
		echo "release: these images are pinned by tag alone; \`make images\` pins them by digest" >&2
	@PYTHONPATH=tests $(BIN)/python -m support.audit || [ $$? = 75 ]
	@$(MAKE) --silent arm
	@rm -rf $(DIST) spark_jobs/spark/jars
	@$(MAKE) --silent wheel archive
	@PYTHONPATH=tests $(BIN)/python -m support.release $(DIST) $(SIGN_KEY)

manifests: $(STAMP) ## render deploy/kubernetes from the Helm chart, and its schema of the settings (after `make tools`)
	@PYTHONPATH=tests $(BIN)/python -m support.chart

docs: $(STAMP) ## write the OpenAPI document, docs/reference, the proof, the layers, and what the tutorial prints
	@PYTHONPATH=tests $(BIN)/python -m support.api_examples
	@PYTHONPATH=tests $(BIN)/python -m support.reference
	@PYTHONPATH=tests $(BIN)/python -m support.proof
	@PYTHONPATH=tests $(BIN)/python -m support.architecture
	@PYTHONPATH=tests $(BIN)/python -m support.tutorial

picture: $(STAMP) ## write docs/page.png and docs/windows.png from live streams; ARGS=folder writes every view on a wide and a narrow screen
	@PYTHONPATH=tests $(BIN)/python -m support.page_picture $(ARGS)

# Into the user's cache, from Go's module proxy; see tests/support/go_tools.py.
tools: $(STAMP) ## build the tools that check what is deployed (Helm and others; needs Go, takes minutes)
	@$(BIN)/python tests/support/go_tools.py

# The same for a Kubernetes API and its store; see tests/support/cluster_programs.py.
cluster: $(STAMP) ## build a Kubernetes API and its store, in which tests install the chart (needs Go, takes ten minutes)
	@PYTHONPATH=tests $(BIN)/python -m support.cluster_programs $(ARGS)

# Into the user's cache, once; see spark_jobs/demo/kafka_jars.py.
jars: $(STAMP) ## get Spark's Kafka connector and a Kafka broker from Maven, which tests else do themselves
	@$(BIN)/python -c "from tidemark.spark_jobs.demo import kafka_jars as k; k.connector_jars(); k.broker_jars()"

# The only target that touches the system, and only when asked. It adds what is missing and upgrades nothing: a Java
# that is there already may be running. Debian starts what it installs; where Prometheus is, nothing is started (exit
# code 101 of policy-rc.d), since tests run their own.
services: ## install the system packages that tests need (Debian, as root)
	@$(FIND_PYTHON); \
	packages=; \
	{ [ -n "$(JAVAC)" ] && "$$python" -P spark_jobs/spark/java.py >/dev/null 2>&1; } || packages="openjdk-17-jdk-headless"; \
	[ -n "$(INITDB)" ] || packages="$$packages postgresql"; \
	[ -n "$(CHROMIUM)" ] || packages="$$packages chromium-headless-shell fonts-dejavu-core"; \
	[ -n "$(CURL)" ] || packages="$$packages curl"; \
	[ -n "$(NPM)" ] || packages="$$packages nodejs npm"; \
	[ -n "$(PROMETHEUS)" ] || packages="$$packages prometheus"; \
	[ -n "$(ALERTMANAGER)" ] || packages="$$packages prometheus-alertmanager"; \
	"$$python" -c 'import ensurepip' 2>/dev/null || packages="$$packages python3-venv"; \
	[ -n "$(NEWEST_PYTHON)" ] || packages="$$packages debootstrap patchelf"; \
	if [ -z "$$packages" ]; then echo "services: nothing to install"; exit 0; fi; \
	if ! command -v apt-get >/dev/null 2>&1; then \
		echo "services: no apt-get here; please install by your own means:" $$packages >&2; exit 1; \
	fi; \
	sudo=; \
	if [ "$$(id -u)" != 0 ]; then \
		if sudo -n true 2>/dev/null; then sudo="sudo -n"; else \
			echo "services: not root; please run: sudo apt-get install" $$packages >&2; exit 1; \
		fi; \
	fi; \
	echo "services: apt-get installs" $$packages; \
	made=; \
	case "$$packages" in *prometheus*) \
		if [ ! -e $(POLICY) ]; then made=1; \
			printf '#!/bin/sh\nexit 101\n' | $$sudo tee $(POLICY) >/dev/null && $$sudo chmod 755 $(POLICY); \
		fi;; \
	esac; \
	trap '[ -z "$$made" ] || $$sudo rm -f $(POLICY)' EXIT; \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq update && \
	$$sudo env DEBIAN_FRONTEND=noninteractive apt-get -qq install --yes --no-upgrade --no-install-recommends $$packages

clean: ## remove what the other targets made
	@rm -rf $(VENV) build node_modules $(DIST) spark_jobs/spark/jars *.egg-info .pytest_cache .ruff_cache .hypothesis
	@find models controller spark_jobs tests -name __pycache__ -type d -prune -exec rm -rf {} +
