# vcsbench. Each target sets up first what it needs; that takes no time where all is there.
# Those who know Snakemake do without: `snakemake --cores all` in an environment that has its tools.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-builtin-rules --no-print-directory

# REPO=/path/to/repository  measure this Subversion or git repository instead of a generated one
# TREE=project/trunk        the folder of that repository to export; TREE=/ is its root (default: trunk, or the root)
# MINUTES=30                how long the run may take; with more of them it goes on where it stopped
# CORES=all                 how many cores the preparation may use
# ARGS="--configfile ..."   more for Snakemake, or for pytest
# STUDY=fsfs-ssd-2014       which studies to run: a name, several, or all
# NAME=before-upgrade       what to call a baseline or a bundle; STUDY= is then the study to save (default: all)
# BUNDLE=january.tar.gz     the bundle to open
# CELL=log/http/...         a cell, as in the column `cell` of results/grid/<study>.csv
CORES ?= all
ARGS ?=
# $(value) leaves dollar signs alone. The recipes take these from their environment, where quotes
# and spaces are safe.
override REPO := $(value REPO)
override TREE := $(value TREE)
override MINUTES := $(value MINUTES)
override CELL := $(value CELL)
override NAME := $(value NAME)
override STUDY := $(value STUDY)
override BUNDLE := $(value BUNDLE)
export REPO TREE MINUTES CELL NAME STUDY BUNDLE

setup := @envs/setup.sh
# Before what has minutes: its time is theirs, too.
setup_timed := @SECONDS=0; envs/setup.sh || exit; export VCSBENCH_SET_UP_S=$$SECONDS;
run := @envs/run.sh
workflow := $(run) workflow/scripts/run_snakemake.sh --cores $(CORES)
vcsbench := @./vcsbench
pytest := $(run) python -m pytest

.PHONY: help
help: ## What there is to do (this list)
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' $(firstword $(MAKEFILE_LIST)) | expand -t 20

.PHONY: setup
setup: ## Install what is needed: Debian packages, Python tools
	$(setup)

.PHONY: report
report: ## Measure for MINUTES=15, and write the report; REPO=/path/to/repository: on your own
	$(setup_timed) exec envs/run.sh workflow/scripts/make_report.sh --cores $(CORES) $(ARGS)

.PHONY: plan
plan: ## Say what a run does and how long it takes, from a short calibration; REPO= as above
	@envs/list-missing.sh
	$(setup)
	$(vcsbench) plan $${REPO:+--repository="$$REPO"} $${TREE:+--tree="$$TREE"} $${STUDY:+--study="$$STUDY"} $(ARGS)

.PHONY: doctor
doctor: ## Say what this machine can measure, what it lacks, and how much it scatters
	@envs/list-missing.sh
	$(setup)
	$(vcsbench) doctor $${REPO:+--repository="$$REPO"} $${TREE:+--tree="$$TREE"} $${STUDY:+--study="$$STUDY"} $(ARGS)

.PHONY: check
check: ## Measure, report, and fail unless all your expectations hold; REPO= as above
	$(setup_timed) exec envs/run.sh workflow/scripts/check.sh --cores $(CORES) $(ARGS)

.PHONY: baseline
baseline: ## Save what was measured as a baseline; NAME=before-upgrade, STUDY=... for one only
	$(setup)
	$(run) env PYTHONPATH=workflow python -m vcsbench.compare.baselines "$$NAME" "$$STUDY"

.PHONY: bundle
bundle: ## Pack data, configuration and reports into bundles/NAME.tar.gz; STUDY=... for one only
	$(setup)
	$(run) env PYTHONPATH=workflow python -m vcsbench.run.bundle "$$NAME" "$$STUDY"

.PHONY: open
open: ## Open such a file in a folder of its own, measuring nothing; BUNDLE=january.tar.gz
	$(setup)
	$(run) env PYTHONPATH=workflow python -m vcsbench.run.opening "$$BUNDLE" "$$NAME"

.PHONY: published
published: ## Compute the published studies' tables from their published numbers
	$(setup)
	$(workflow) $(ARGS) published

.PHONY: show
show: ## Print what a cell does; CELL=log/http/..., REPO= as above
	$(setup)
	$(vcsbench) show "$$CELL" $${REPO:+--repository="$$REPO"} $${TREE:+--tree="$$TREE"} $${STUDY:+--study="$$STUDY"} $(ARGS)

.PHONY: run-cell
run-cell: ## Run one cell by hand; CELL=log/http/..., REPO= as above
	$(setup)
	$(vcsbench) run "$$CELL" $${REPO:+--repository="$$REPO"} $${TREE:+--tree="$$TREE"} $${STUDY:+--study="$$STUDY"} $(ARGS)

.PHONY: clean
clean: ## Remove results/ and what vcsbench made on the storages for this checkout
	$(setup)
	$(vcsbench) clean $(ARGS)

.PHONY: test
test: ## Run the tests, those that take minutes left out
	@envs/setup.sh --test
	$(pytest) -m "not slow" $(ARGS)

.PHONY: test-all
test-all: ## Run all tests
	@envs/setup.sh --test --cluster
	$(pytest) $(ARGS)

.PHONY: lint
lint: ## Check formatting, types, rules and shell scripts
	@envs/setup.sh --test
	$(run) ruff check
	$(run) ruff format --check
	$(run) snakefmt --check Snakefile workflow/rules
	$(run) mypy workflow/vcsbench workflow/scripts
	$(run) snakemake --lint
	@if type -P shellcheck >/dev/null; then shellcheck -x .ci/run vcsbench $$(find envs workflow -name '*.sh'); fi

.PHONY: bench
bench: ## Measure what vcsbench itself costs, in minutes; ARGS=--write: into docs/benchmarks.md
	@envs/setup.sh --test
	$(run) python benchmarks/bench.py $(ARGS)

.PHONY: lock
lock: ## Write envs/*.lock anew after a change of pyproject.toml
	$(setup)
	@uv=$$(type -P uv || echo .tools/uv/bin/uv); lock() { \
		"$$uv" pip compile --quiet --universal --generate-hashes --no-annotate \
			--custom-compile-command "make lock" "$$@"; }; \
	lock pyproject.toml --group dev --output-file envs/python.lock; \
	lock --group cluster --constraint envs/python.lock --output-file envs/cluster.lock; \
	lock --group installer --output-file envs/installer.lock
