# Every target does its own set-up from a clean clone; scripts/setup.sh says what the system lacks.
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest

.PHONY: help setup demo test test-oracles unit sim formal lint format bench bench-formats clean
help: ; @sed -n '/sed/d; s/^\([a-z-]*\): .*## /\1\t/p' Makefile
setup: ; @scripts/setup.sh

demo: setup ## generate the hardware, train it on handwritten digits; results in build/demo
	$(BIN)/python scripts/demo.py build/demo

test: unit sim formal ## every test
unit: setup ## unit tests, and the generated product
	$(PYTEST) tests/unit tests/product
sim: setup ## cocotb benches on the generated Verilog
	$(PYTEST) tests/rtl
formal: setup ## proofs
	$(PYTEST) tests/formal
test-oracles: setup ## long sweeps: every format against other libraries, every product in Verilator
	$(PYTEST) tests/oracles

lint: setup ## style and likely mistakes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
format: setup ## rewrite the files in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## measure what the README claims; results in build/bench.json
	$(BIN)/python scripts/bench.py build/bench.json
bench-formats: setup ## area of the cell of every format; results in build/formats.json
	$(BIN)/python scripts/bench_formats.py --json build/formats.json
clean: ## remove everything that was made here
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis *.egg-info
	find hw sim tests scripts -name __pycache__ -type d -prune -exec rm -rf {} +
.NOTPARALLEL:
