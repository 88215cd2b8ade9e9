# Each target sets up what it needs from nothing but Python 3.11 and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The version whose default build is for the CPU; the package itself takes any torch >= 2.4.
TORCH  ?= torch==2.13.0

.PHONY: demo test lint bench clean

demo: $(VENV)/demo.ready
	$(BIN)/gpcanet demo --force

test: $(VENV)/test.ready lint
	$(BIN)/python -m pytest

lint: $(VENV)/test.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/test.ready
	$(BIN)/python benchmarks/step.py --save
	$(BIN)/python benchmarks/command.py --save
	$(BIN)/python benchmarks/generate.py --save
	$(BIN)/python benchmarks/script.py --save
	$(BIN)/python benchmarks/path.py --save

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"

$(VENV)/demo.ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable ".[report]"
	touch $@

$(VENV)/test.ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[report,h5ad]" torch-geometric --group test --group lint
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
