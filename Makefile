# Every target works alone on a machine that has only Python 3.11+, pip and make.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# One worker per CPU; make test JOBS=0 runs in one process, make test HUNT_SEED=7 hunts with another seed.
JOBS   ?= 2

.PHONY: demo test test-all bench lint clean setup
.DEFAULT_GOAL := demo

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; sys.exit(0 if (3, 11) <= v <= (3, 13) else f"brokerlab needs Python 3.11 to 3.13, {sys.executable} is {v[0]}.{v[1]}: call make PYTHON=/path/to/python3.11")'
	@echo "Setting up, once: an environment in $(VENV), the tested versions into it, and the kernels."
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[all,dev]'
	$(BIN)/brokerlab warm
	@touch $@

demo: $(READY)
	@$(BIN)/brokerlab demo

test: $(READY)
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup -m 'not full'

test-all: $(READY)
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup

bench: $(READY)
	@$(BIN)/brokerlab bench

lint: $(READY)
	@$(BIN)/ruff check .
	@$(BIN)/mypy

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .hypothesis .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
