# The work is done by the programs in scripts/; this file only gives it short names.

.DEFAULT_GOAL := help
.PHONY: help demo test test-all test-matrix docs package browser dst explore faults soak benchmark benchmark-quick simulate lint servers stop clean

VENV ?= .venv
HOURS ?= 2
SEEDS ?= 1000
BENCHMARK_VENV ?= .venv-benchmark
RESULTS ?= benchmarks/results/$(shell date +%F).json

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 17

demo: ## see delayed tasks at work, on SQLite
	@scripts/setup demo
	@exec $(VENV)/bin/python scripts/demo $(ARGS)

test: ## checks, and the tests but the long ones, on each database that is there, in ten minutes (ARGS="..." goes to pytest)
	@scripts/setup test
	@exec $(VENV)/bin/python -m devtools.test $(ARGS)

test-all: ## the rest as well, as continuous integration does: long tests, other Pythons, browser, faults...
	@scripts/setup test
	@scripts/setup part
	@ALL=1 exec $(VENV)/bin/python -m devtools.test

test-matrix: ## the tests with the other versions of Python and Django, on all databases
	@scripts/setup test
	@exec $(VENV)/bin/nox --session matrix -- $(ARGS)

docs: ## the documentation as a site, checked: build/site/index.html
	@scripts/setup docs
	@exec $(VENV)/bin/python -m devtools.site $(ARGS)

package: ## the distributions, built into dist/, looked into and installed
	@scripts/setup package
	@exec $(VENV)/bin/nox --session package -- $(ARGS)

browser: ## the admin in Chromium, as a person uses it (PICTURES=docs/pictures keeps pictures of it)
	@scripts/setup browser
	@exec $(VENV)/bin/nox --session browser -- $(ARGS)

dst: ## schedules around every change of clocks of all zones, 2000 to 2037, in some minutes
	@scripts/setup lint
	@exec $(VENV)/bin/python -m tests.schedules.daylight $(ARGS)

explore: ## a cluster in a box: SEEDS=1000 schedules of ten workers in simulated time, ten minutes
	@scripts/setup lint
	@exec $(VENV)/bin/python -m tests.simulated_cluster --seeds $(SEEDS) $(ARGS)

faults: ## faults against real servers on all databases and clusters, half an hour (ARGS="--seed 7")
	@scripts/setup faults
	@exec $(VENV)/bin/python -m tests.faults.run $(ARGS)

soak: ## the same with 100,000 tasks a fault, again and again for HOURS=2
	@scripts/setup faults
	@exec $(VENV)/bin/python -m tests.faults.run --long --hours $(HOURS) $(ARGS)

benchmark: ## ours, raw drivers and neighbours measured by turns, for hours; writes docs/understand/benchmarks.rst
	@VENV=$(BENCHMARK_VENV) scripts/setup benchmark
	@$(BENCHMARK_VENV)/bin/python -m benchmarks.install
	@$(BENCHMARK_VENV)/bin/python -m benchmarks.run --resume --json $(RESULTS) $(ARGS)
	@$(BENCHMARK_VENV)/bin/python -m benchmarks.report $(RESULTS)

benchmark-quick: ## the same in small, in a few minutes; writes nothing
	@VENV=$(BENCHMARK_VENV) scripts/setup benchmark
	@$(BENCHMARK_VENV)/bin/python -m benchmarks.install
	@exec $(BENCHMARK_VENV)/bin/python -m benchmarks.run --quick $(ARGS)

simulate: ## up to 1,000 workers as a model, in some minutes; writes the numbers of docs/understand/simulation.rst
	@scripts/setup simulate
	@$(VENV)/bin/python -m benchmarks.simulation --rst --picture $(ARGS)

lint: ## only the checks
	@scripts/setup lint
	@exec $(VENV)/bin/nox --session checks

servers: ## start private database servers
	@scripts/setup test
	@scripts/servers start

stop: ## stop them and remove their data
	@scripts/servers stop

clean: ## remove all that the other targets made
	@scripts/servers stop
	@rm -rf .nox .servers .venv .venv-* build dist ./*.egg-info db.sqlite3 db.sqlite3-* demo.sqlite3 demo.sqlite3-* demo.log
	@rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	@find . -name .git -prune -o -type d -name __pycache__ -exec rm -rf {} +
