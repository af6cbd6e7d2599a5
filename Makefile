# Everything sets itself up: a virtual environment in .venv with the versions pinned in requirements.lock. `make run` alone
# installs what the demo needs, pinned in requirements-run.lock; any other target adds the rest to the same environment.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_TO_RUN := $(if $(wildcard $(READY)),$(READY),$(VENV)/.ready-to-run)
# Data sets live outside the repository; tests that need one say so when it is missing.
# Options of `coldstream demo` for `make run`.
DEMO ?=
export COLDSTREAM_DATA ?= $(abspath ../shared/data)

.PHONY: run install test torture soak postgres haproxy prometheus chromium servers kernels screenshots docs schemas dist check lint types layers bench mutants paper results lock clean
.DEFAULT_GOAL := help

help:  ## What there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

define install
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "coldstream needs Python 3.11 or newer: make PYTHON=python3.12 …")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r $<
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
endef

$(READY): requirements.lock pyproject.toml
	$(install)

$(VENV)/.ready-to-run: requirements-run.lock pyproject.toml
	$(install)

run: $(READY_TO_RUN)  ## Watch it learn: the service, a simulated audience whose taste changes, and a live page
	@$(BIN)/coldstream demo $(DEMO)

install: $(READY)  ## Everything in .venv: what the commands of the evaluation, the engines and the tests need as well

postgres:  # a server for the tests, where there is none
	@sh tools/install.sh postgres

haproxy:  # a proxy for the tests, where there is none
	@sh tools/install.sh haproxy

prometheus:  # promtool for the tests, where there is none
	@sh tools/install.sh prometheus

chromium:  # a browser for the tests and the screenshots, where there is none
	@sh tools/install.sh chromium

servers: postgres haproxy prometheus chromium

kernels: $(READY)  # compiled once, where every process of the tests would compile them for itself
	@$(BIN)/coldstream compile --preset default --preset paper

test: $(READY)  ## All tests, doctests of the documentation included
	@$(MAKE) --no-print-directory --jobs=2 kernels servers
	$(BIN)/python -m pytest --numprocesses=auto --dist=worksteal --durations=30 --durations-min=5

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

layers: $(READY)
	$(BIN)/lint-imports

check: lint types layers test  ## Everything a change has to pass: ruff, mypy, import layers, doctests, tests

bench: $(READY) postgres  ## Measure speed and memory; ratios are taken within one run
	@$(BIN)/python benchmarks/core.py
	@$(BIN)/python benchmarks/growth.py
	@$(BIN)/python benchmarks/snapshots.py
	@$(BIN)/python benchmarks/service.py
	@$(BIN)/python benchmarks/upkeep.py
	@$(BIN)/python benchmarks/replicas.py

torture: $(READY) postgres  ## A thousand kills on both stores, 200 while snapshots are written, 100 failovers, and 100,000 odd requests: an hour and a half, not part of the tests
	@$(BIN)/python tests/torture

EVENTS ?= 10000000

soak: $(READY)  ## EVENTS events under a budget, and a tenth as many through the service: is memory flat? An hour for ten million
	@$(BIN)/python benchmarks/soak.py --events $(EVENTS)
	@$(BIN)/python benchmarks/soak.py --service --events $$(($(EVENTS) / 10))

COUNT ?= 100
SEED ?= 1

mutants: $(READY) postgres  ## Change the code in COUNT places drawn from SEED, one at a time: do the tests notice? Goes on where it stopped
	@nice -n 10 $(BIN)/python tools/mutants --count $(COUNT) --seed $(SEED)

screenshots: $(READY) chromium  ## The pictures of the page in the documentation
	$(BIN)/python tests/end_to_end/browser.py docs/images

paper: $(READY)  ## The paper's experiment, beside what was published; writes paper/report.html
	@$(BIN)/coldstream paper --out paper

POPULARITY := popularity $(addprefix recent-popularity:,half_life=100 half_life=500 half_life=2000 half_life=10000 window=2000 window=100)
METHODS := coldstream linear $(POPULARITY) markov item-knn ease ease:recency=0.5 imf imf-tuned ifm random
comma := ,
space := $(subst ,, )

results: $(READY)  ## All figures of docs/results.md: half an hour on two cores; writes results/
	@mkdir -p results
	@for d in ml-100k ml-1m movietweetings clicks; do $(BIN)/coldstream evaluate $$d --seeds 5 \
		--methods $(subst $(space),$(comma),$(METHODS)) --json results/$$d.json --report results/$$d.html; done

docs: $(READY)  ## The documentation as a site, its links checked; writes build/site/
	@$(BIN)/python tools/documentation

schemas: $(READY)  ## The JSON Schemas of schema.toml and of the settings, written anew into docs/schemas/
	@cd tools/documentation && ../../$(BIN)/python -c "from pathlib import Path; from json_schemas import SCHEMAS, text_of; [Path('../../docs/schemas', name).write_text(text_of(name), encoding='utf-8') for name in SCHEMAS]"

dist: $(READY)  ## Wheel and sdist, twice the same bytes, tried in empty environments and, as root, in an empty Debian; writes dist/
	@sh tools/install.sh debootstrap
	@$(BIN)/python tools/packages

COMPILE := pip compile --quiet --universal --generate-hashes --no-header --no-annotate --python-version 3.11

lock: $(READY)  ## Pin the newest versions that fit pyproject.toml; those of `make run` are among them
	$(BIN)/uv $(COMPILE) --upgrade --extra dev --output-file requirements.lock pyproject.toml
	$(BIN)/uv $(COMPILE) --extra service --group editable --constraint requirements.lock --output-file requirements-run.lock pyproject.toml

clean:  ## Forget the environment and all caches
	rm -rf $(VENV) .mutants .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
