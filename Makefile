# vcsbench. Each target sets up its requirements first; a finished set-up takes a moment.
# Without make: `snakemake --cores all` in an environment with the tools.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# REPO=/path/to/repository  measure this Subversion or git repository instead of a generated one
# TREE=project/trunk        the folder of that repository to export; TREE=/ is its root (default: trunk, or the root)
# LOG=/var/log/svn.log      weigh the commands by this log of your server: mod_dav_svn's SVN-ACTION, or svnserve's
# MINUTES=30                how long the run may take; with more of them it continues where it stopped
# CORES=all                 how many cores the preparation may use
# ARGS="--configfile ..."   more arguments for vcsbench and Snakemake, or for pytest
# STUDY=fsfs-ssd-2014       which studies to run: a name, several, or all
# NAME=before-upgrade       the name of a baseline or a bundle
# BUNDLE=january.tar.gz     the bundle to import
# CELL=log/http/...         a cell, as in the column `cell` of results/grid/<study>.csv
override CORES := $(or $(value CORES),all)
ARGS ?=
# $(value) leaves dollar signs alone. The recipes take these from their environment, where quotes
# and spaces are safe.
override REPO := $(value REPO)
override TREE := $(value TREE)
override LOG := $(value LOG)
override MINUTES := $(value MINUTES)
override CELL := $(value CELL)
override NAME := $(value NAME)
override STUDY := $(value STUDY)
override BUNDLE := $(value BUNDLE)
export REPO TREE LOG MINUTES CELL NAME STUDY BUNDLE

# By bash, because some programs unpack an archive without its execute bits.
setup := @bash envs/setup.sh
# For targets with a time limit: set-up is part of it.
setup_timed := @SECONDS=0; bash envs/setup.sh || exit; export VCSBENCH_SETUP_SECONDS=$$SECONDS;
run := @bash envs/run.sh
vcsbench := @exec bash ./vcsbench
# An empty variable is no flag.
flags := $${REPO:+--repository="$$REPO"} $${TREE:+--tree="$$TREE"} $${LOG:+--server-log="$$LOG"} $${STUDY:+--study="$$STUDY"}
limited := $(flags) $${MINUTES:+--minutes="$$MINUTES"}
timed := $(limited) --cores="$(CORES)"
# The tests that measure run one after the other, and next to the others.
pytest := $(run) python -m pytest --numprocesses auto --dist loadscope --no-loadscope-reorder

.PHONY: help
help: ## What there is to do (this list)
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

.PHONY: setup
setup: ## Install what is needed: Debian packages, Python tools
	$(setup)

.PHONY: report
report: ## Measure for MINUTES=15, and write the report; REPO=/path/to/repository: on your own
	$(setup_timed) exec bash ./vcsbench run $(timed) $(ARGS)

.PHONY: plan
plan: ## Print what a run does, how long it takes, and what is lacking; REPO= as above
	@bash envs/list-missing.sh
	$(setup)
	$(vcsbench) plan $(limited) $(ARGS)

.PHONY: doctor
doctor: ## Print what this machine can measure, and what is missing, with remedies
	@bash envs/list-missing.sh
	$(setup)
	$(vcsbench) doctor $(flags) $(ARGS)

.PHONY: check
check: ## Measure, report, and fail unless all your expectations hold; REPO= as above
	$(setup_timed) exec bash ./vcsbench check $(timed) $(ARGS)

.PHONY: baseline
baseline: ## Save the results as a baseline; NAME=before-upgrade, STUDY=... for one only
	$(setup)
	$(vcsbench) baseline --name="$$NAME" $(flags) $(ARGS)

.PHONY: bundle
bundle: ## Pack data, configuration and reports into bundles/NAME.tar.gz; STUDY=... for one only
	$(setup)
	$(vcsbench) bundle --name="$$NAME" $(flags) $(ARGS)

.PHONY: import
import: ## Unpack a bundle into a new folder, and make its reports again; BUNDLE=january.tar.gz
	$(setup)
	$(vcsbench) import --name="$$NAME" $(ARGS) -- "$$BUNDLE"

.PHONY: published-tables
published-tables: ## Compute the published studies' tables from their published numbers
	$(setup)
	$(vcsbench) published-tables --cores="$(CORES)" $(ARGS)

.PHONY: show
show: ## Print what a cell does; CELL=log/http/..., REPO= as above
	$(setup)
	$(vcsbench) show $(flags) $(ARGS) -- "$$CELL"

.PHONY: measure
measure: ## Measure one cell once and print it; CELL=log/http/..., REPO= as above
	$(setup)
	$(vcsbench) measure $(flags) $(ARGS) -- "$$CELL"

.PHONY: clean
clean: ## Remove results/ and what vcsbench made on the storages for this checkout
	$(setup)
	$(vcsbench) clean $(ARGS)

.PHONY: test
test: ## Run the tests, those that take minutes left out
	@bash envs/setup.sh --test
	$(pytest) -m "not slow" $(ARGS)

.PHONY: test-all
test-all: ## Run all tests
	@bash envs/setup.sh --test --cluster
	$(pytest) $(ARGS)

.PHONY: stress
stress: ## Hit a small real run with random kills and full disks; ARGS="--seed 1 --hits 10"
	@bash envs/setup.sh --test
	$(run) python tests/stress.py $(ARGS)

.PHONY: lint
lint: ## Check formatting, types, rules and shell scripts
	@bash envs/setup.sh --test
	$(run) ruff check
	$(run) ruff format --check
	$(run) snakefmt --check Snakefile workflow/Snakefile workflow/rules
	$(run) mypy workflow/vcsbench workflow/scripts workflow/snakemake_logger_plugin_vcsbench benchmarks
	$(run) snakemake --lint
	$(run) python tests/prose_check.py
	@if type -P shellcheck >/dev/null; then shellcheck -x .ci/run vcsbench $$(find envs workflow -name '*.sh'); fi

.PHONY: lock
lock: ## Write envs/*.lock again after a change of pyproject.toml
	$(setup)
	@uv=$$(type -P uv || echo .tools/uv/bin/uv); lock() { \
		"$$uv" pip compile --quiet --universal --generate-hashes --no-annotate \
			--custom-compile-command "make lock" "$$@"; }; \
	lock pyproject.toml --group dev --output-file envs/python.lock; \
	lock --group cluster --constraint envs/python.lock --output-file envs/cluster.lock; \
	lock --group installer --output-file envs/installer.lock
