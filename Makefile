# Thin: every target sets up what it needs in .venv and calls one command.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint install clean

demo: .venv/.installed
	$(BIN)/dpl demo

test: .venv/.installed-dev
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/pytest

install: .venv/.installed

.venv/.installed: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $@

.venv/.installed-dev: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@ .venv/.installed

clean:
	rm -rf .venv dpl-demo runs .pytest_cache .mypy_cache .ruff_cache
