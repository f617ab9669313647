# Two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
# One worker per core; the tests of one file stay together, since they share what is slow to start. In the order of names:
# files of many tests first would leave the slowest ones for the end.
PARALLEL ?= --numprocesses=auto --dist=loadfile --no-loadscope-reorder
PROMETHEUS ?= http://127.0.0.1:9090
BIN := $(VENV)/bin
STAMP := $(VENV)/.made

.PHONY: demo test test-quick test-environments lint dashboards docs board-check bench clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all]" --group test --group dashboards --group lint
	touch $(STAMP)

demo: $(STAMP) ## set up, then run the demo
	$(BIN)/toolmend demo

test: $(STAMP) ## set up, then run every test whose programs are found
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest $(PARALLEL)
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

test-quick: $(STAMP) ## what can differ between Python versions: no services, no documents, no judges, no demo, no malformed input
	$(BIN)/python -m pytest $(PARALLEL) tests/execution tests/formats tests/integrations tests/providers tests/telemetry tests/unit \
		tests/property/test_repair_properties.py --ignore=tests/unit/test_cli_demo.py --ignore=tests/unit/test_demo_play.py \
		--ignore=tests/unit/test_cli_check.py --ignore=tests/unit/test_core_malformed.py --ignore=tests/unit/test_formats_malformed.py

test-environments: $(STAMP) ## the integrations with other versions of the SDKs and beside other instrumentations
	PYTHON=$(PYTHON) .ci/build-environments
	PYTHON=$(PYTHON) BUILDER=$(BIN)/python .ci/test-environments

lint: $(STAMP) ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

dashboards: $(STAMP) ## write the boards, the rules and docs/metrics.md anew
	$(BIN)/python -m dashboards.generate

docs: $(STAMP) ## write the pages of docs/ anew that follow from the code
	$(BIN)/python -m docs.generate

board-check: $(STAMP) ## ask a live Prometheus everything that the boards ask: make board-check PROMETHEUS=URL
	$(BIN)/toolmend dashboards check $(PROMETHEUS)

bench: $(STAMP) ## what repair, guarded tools and instrument() cost, as ratios
	$(BIN)/python -m benchmarks.repair_speed
	$(BIN)/python -m benchmarks.tool_speed
	@home="$$(PYTHON=$(PYTHON) .ci/build-environments --list | sed -n 's/^neighbours //p')"; \
	if [ -n "$$home" ]; then PYTHONPATH=src "$$home/bin/python" -m benchmarks.instrument_speed; \
	else echo "other instrumentations: not run without the environment of .ci/build-environments"; fi

clean:
	rm -rf $(VENV) build dist .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
