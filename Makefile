# Two commands do everything on a machine with Python and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made

.PHONY: demo test test-quick lint clean

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable ".[all]" --group test --group lint
	touch $(STAMP)

demo: $(STAMP) ## set up, then run the demo
	$(BIN)/toolmend demo

test: $(STAMP) ## set up, then run every test whose programs are found
	$(BIN)/python -m coverage erase
	$(BIN)/python -m coverage run -m pytest
	$(BIN)/python -m coverage combine --quiet
	$(BIN)/python -m coverage report

test-quick: $(STAMP) ## what can differ between Python versions: no services, no documents, no demo processes
	$(BIN)/python -m pytest --ignore=tests/services --ignore=tests/docs --ignore=tests/unit/test_cli_demo.py

lint: $(STAMP) ## formatting, lint, types, layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

clean:
	rm -rf $(VENV) build dist .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
