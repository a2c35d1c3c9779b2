# Every target does its own set-up from a clean clone; scripts/setup.sh says what the system lacks.
BIN := .venv/bin
PYTEST := $(BIN)/python -m pytest
# A core takes the next test of another's share when its own are done.
PARALLEL := $(PYTEST) -n auto --dist worksteal

.PHONY: help setup demo test unit sim formal mutate sweeps package torch docs board-ulx3s route nightly lint format bench clean
help: ; @sed -n '/sed/d; s/^\([a-z0-9-]*\): .*## /\1\t/p' Makefile
setup: ; @scripts/setup.sh

demo: setup ## generate the hardware, train it on handwritten digits; results in build/demo
	$(BIN)/python scripts/demo.py build/demo

test: setup ## every test, on every core, and a sample of the faults
	$(PARALLEL) tests/unit tests/product tests/mutation tests/rtl tests/formal
unit: setup ## unit tests, and the generated product; ARGS="tests/unit/tool -k formats" for some of them
	$(PARALLEL) $(if $(filter tests/%,$(ARGS)),,tests/unit tests/product) $(ARGS)
sim: setup ## cocotb benches on the generated Verilog
	$(PARALLEL) tests/rtl
formal: setup ## proofs
	$(PARALLEL) tests/formal

mutate: setup ## faults in the Verilog, all that are known and random ones: who notices them
	$(BIN)/python scripts/mutation.py
sweeps: setup ## long sweeps: every format against its oracle, every product in Verilator
	$(PARALLEL) -m "sweep or not sweep" tests/sweeps
	$(PARALLEL) -m sweep tests/unit tests/product tests/mutation tests/rtl tests/formal
package: setup ## what an index would get, installed and used apart; in build/package
	$(BIN)/python scripts/package.py build/package
torch: setup ## tests that need torch, those of diastole.torch too, in an environment of their own; in build/torch
	$(BIN)/python scripts/torch_tests.py build/torch
docs: setup ## the site of the documents, in an environment of its own; in build/docs/html
	$(BIN)/python scripts/docs.py build/docs
board-ulx3s: setup ## a bitstream of the ULX3S by open tools, in an environment of their own; in build/ulx3s
	$(BIN)/python scripts/ulx3s.py build/ulx3s
route: setup ## place and route of pico on an ECP5, in an environment of its own; in build/route
	$(BIN)/python scripts/route.py build/route
nightly: mutate sweeps package torch docs route bench ## what takes long, and every figure with what is asked of it

lint: setup ## style, likely mistakes, types, plain words
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright --pythonpath $(BIN)/python
	$(BIN)/python scripts/prose.py
format: setup ## rewrite the files in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## every figure with what is asked of it, in docs/results.md; ARGS="-k format_cells" for some
	$(PYTEST) bench --results $(ARGS)
clean: ## remove everything that was made here; says what is kept elsewhere
	rm -rf .venv build .pytest_cache .ruff_cache .hypothesis *.egg-info
	find hw sim tool tests bench scripts -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "left alone, for it is the user's: products and simulations that were made once, in"
	@echo "$${XDG_CACHE_HOME:-$$HOME/.cache}/diastole (rm -r empties it; diastole doctor has its size)"
.NOTPARALLEL:
