# Each target sets up what it needs from nothing but Python 3.11 and a package index.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
# The version whose default build is for the CPU; the package itself takes any torch >= 2.4.
TORCH  ?= torch==2.13.0

.PHONY: demo test slow lint docs bench evidence campaign page clean

demo: $(VENV)/demo.ready
	$(BIN)/gpcanet demo --force

# A file of tests runs in one process, two files at a time.
test: $(VENV)/test.ready lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

# The published numbers of Cora by the authors' own settings, and every property on many inputs.
EXAMPLES ?= 2000
slow: $(VENV)/test.ready
	$(BIN)/python -m pytest -m slow
	GPCANET_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -m property

lint: $(VENV)/test.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The documentation site, in docs/_build/html; warnings are errors. Cora is used if it is at hand.
docs: $(VENV)/docs.ready
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html
	$(BIN)/python docs/check_site.py docs/_build/html

# About two hours, 8 GiB of memory and 4 GiB of disk; PARTS=step,embed measures only these parts.
# The part distributed needs 20 GiB of memory and 25 GiB of disk.
bench: $(VENV)/bench.ready
	$(BIN)/python -m benchmarks --size full --parts "$(PARTS)" --out benchmarks/results --docs docs --force

# The paper's experiments, which take hours. After an interrupt, the journal is continued.
JOURNAL ?= evidence.jsonl
evidence: $(VENV)/test.ready
	$(BIN)/python -m reproduction run --journal $(JOURNAL)
	$(BIN)/python -m reproduction report $(JOURNAL) --output docs --name evidence --force

# Looks for wrong answers and lost files; the exit code is 1 if it finds any.
MINUTES ?= 60
SEED    ?= 0
campaign: $(VENV)/test.ready
	$(BIN)/python -m campaign --minutes $(MINUTES) --seed $(SEED)

# Writes docs/performance.md, docs/evidence.md and the figures of docs/testing.md from the committed results.
page: $(VENV)/test.ready
	$(BIN)/python -m benchmarks --page-only --out benchmarks/results --docs docs
	$(BIN)/python -m reproduction report docs/evidence.json --output docs --name evidence --force
	$(BIN)/python -m campaign.page

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --upgrade "pip>=25.1"

$(VENV)/demo.ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable ".[plot]"
	touch $@

$(VENV)/bench.ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[distributed]" --group bench
	touch $@

$(VENV)/docs.ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[nn,plot,anndata]" --group docs
	touch $@

$(VENV)/test.ready: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet "$(TORCH)"
	$(BIN)/pip install --quiet --editable ".[nn,plot,anndata,distributed]" --group test --group lint
	touch $@

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis docs/_build docs/api docs/gallery
