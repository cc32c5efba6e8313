# Everything a developer does here. `make help` lists it.
# The first target that needs it creates .venv; nothing is installed outside this folder.
# Paths are relative on purpose: a clone may live in a folder with spaces in its name.

PY     := .venv/bin/python
STAMP  := .venv/.installed
BENCH  := .venv/.installed-bench
N      ?=

.DEFAULT_GOAL := help
DOCS   := .venv/.installed-docs

.PHONY: help setup browser demo demo-console docs test check format fuzz tpch chaos bench bench-plans bench-skew bench-queries bench-peers bench-views bench-scale bench-adaptive bench-console bench-kafka bench-subscriptions kafka wheel constraints clean

help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(STAMP) ## create .venv and install what is missing (Java too, if there is none)

$(STAMP): pyproject.toml constraints.txt scripts/setup
	@sh scripts/setup dev
	@touch $@

$(BENCH): $(STAMP)
	@sh scripts/setup dev,bench
	@touch $@

browser: ## install Chromium for the tests of the console (needs root and apt-get)
	@sh scripts/browser

demo: $(STAMP) ## run three continuous joins and check every row of them
	@$(PY) -m weft.cli demo

demo-console: $(STAMP) ## show a job that goes on in the browser, and choose its plan there
	@$(PY) -m weft.cli demo --console

test: $(STAMP) ## run all tests: plain ones on two processes, then those on Spark in one
	$(PY) -m pytest -n 2 -m "not spark"
	$(PY) -m pytest -m spark

check: $(STAMP) ## lint, formatting, types, layers
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	.venv/bin/lint-imports --no-cache  # a cache would keep modules that no longer exist

format: $(STAMP) ## format the code and fix what the linter can fix
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

fuzz: $(STAMP) ## compare random joins, tables, and sessions that change, with the oracle (N=10000)
	$(PY) -m tests.fuzz --n $(or $(N),10000)
	$(PY) -m tests.migrations --n $$(( $(or $(N),10000) / 10 ))
	$(PY) -m tests.adapt.lives --n $$(( $(or $(N),10000) / 50 + 1 ))
	$(PY) -m tests.changing --n $$(( $(or $(N),10000) / 20 + 1 ))
	$(PY) -m tests.wide --n $$(( $(or $(N),10000) / 10 ))
	$(PY) -m tests.moving --n $$(( $(or $(N),10000) / 50 + 1 ))
	$(PY) -m tests.resharing --n $$(( $(or $(N),10000) / 50 + 1 ))
	$(PY) -m tests.wide --n $$(( $(or $(N),10000) / 1000 + 1 )) --spark
	$(PY) -m tests.others --n $$(( $(or $(N),10000) / 50 + 1 ))
	$(PY) -m tests.tabled --n $$(( $(or $(N),10000) / 10 ))
	$(PY) -m tests.tabled --n $$(( $(or $(N),10000) / 2000 + 1 )) --spark

tpch: $(BENCH) ## compare all queries of TPC-H with DuckDB after every batch (SCALE=0.1; a minute)
	$(PY) -m bench.published_views --scale $(or $(SCALE),0.1)

chaos: $(STAMP) ## kill jobs by seed, start them again and compare all sinks (KILLS=100 SEED=1 BESIDE=1)
	$(PY) -m tests.chaos --kills $(or $(KILLS),$(N),100) --beside $(or $(BESIDE),1) $(if $(SEED),--seed $(SEED))

$(DOCS): $(STAMP)
	@sh scripts/setup dev,docs
	@touch $@

docs: $(DOCS) ## build the documentation into site/; every link is checked
	$(PY) -m mkdocs build --strict --quiet && echo "site/index.html"

docs-serve: $(DOCS) ## show the documentation while you write it
	$(PY) -m mkdocs serve

bench: $(BENCH) ## measure throughput on the TPC-H Q3 join
	$(PY) -m bench.q3

bench-plans: $(BENCH) ## compare plans with each other and with the papers (ten minutes)
	$(PY) -m bench.plans

bench-skew: $(BENCH) ## compare ways to spread uneven keys, also with Squall's tables (three minutes)
	$(PY) -m bench.skew

bench-queries: $(BENCH) ## many queries as one plan, the solver, and changes of plan (20 minutes)
	$(PY) -m bench.solver
	$(PY) -m bench.queries
	$(PY) -m bench.migrate

bench-peers: $(BENCH) ## compare Weft with its peers, each in an environment of its own (35 minutes)
	$(PY) -m bench.peers

bench-views: $(BENCH) ## compare aggregates over joins with enumerated joins and with peers (up to an hour)
	$(PY) -m bench.views

bench-adaptive: $(BENCH) ## compare plans that follow the data with those that do not, over time
	$(PY) -m bench.adaptive

bench-scale: $(BENCH) ## measure how Weft's cost grows with state, batches, workers and relations
	$(PY) -m bench.scale

bench-subscriptions: $(BENCH) ## one join for many subscriptions: kernel, the paper's figures, peers (25 minutes)
	$(PY) -m bench.subscriptions
	$(PY) -m bench.subscriptions --boxes 500000 --results 1,4 --only
	$(PY) -m bench.subscriptionfigures
	$(PY) -m bench.asking
	$(PY) -m bench.subscribed

bench-kafka: $(BENCH) ## joins of Kafka topics: throughput and latency, beside Spark's own (half an hour)
	$(PY) -m bench.kafka

kafka: $(STAMP) ## run a Kafka broker on this machine until Ctrl-C
	$(PY) -m bench.broker

bench-console: $(BENCH) ## measure what the console costs a session, without and with three viewers (five minutes)
	$(PY) -m bench.console

wheel: $(STAMP) ## build dist/weft-*.whl, to install elsewhere
	$(PY) -m pip wheel . --no-deps -q -w dist && ls dist

dist: $(STAMP) ## build wheel and source distribution into dist/, and try the wheel in a new environment
	$(PY) scripts/dist.py

constraints: $(BENCH) ## write constraints.txt from what .venv holds now
	$(PY) scripts/constraints.py > constraints.new
	mv constraints.new constraints.txt

clean: ## remove .venv and all caches
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
