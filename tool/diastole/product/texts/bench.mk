# `make` runs the bench in cocotb. `make bench` runs the bench in plain Verilog, which needs no Python. The
# simulator is Icarus, or Verilator with SIM=verilator.
SIM ?= icarus
SOURCES := $(addprefix ../,$(shell cat ../MACHINE.f))
QUIET := -Wno-fatal -Wno-lint -Wno-style -Wno-INITIALDLY -Wno-UNOPTFLAT
SCRATCH
ifeq ($(MAKECMDGOALS),bench)
.PHONY: bench
ifeq ($(SIM),verilator)
bench:
	mkdir -p $(BUILD)
	+$(VERILATOR) --binary --timing $(JOBS) $(QUIET) -Mdir $(BUILD)/bench_build -o bench \
	  --top-module MACHINE_tb -MAKEFLAGS $(HEADER) MACHINE_tb.v $(SOURCES) > $(BUILD)/bench_build.log
	$(BUILD)/bench_build/bench
else
bench:
	mkdir -p $(BUILD)
	iverilog -g2012 -o $(BUILD)/bench.vvp MACHINE_tb.v $(SOURCES)
	vvp -n $(BUILD)/bench.vvp
endif
else
TOPLEVEL_LANG = verilog
VERILOG_SOURCES = MACHINE_wrapper.v $(SOURCES)
COCOTB_TOPLEVEL = MACHINE_wrapper
COCOTB_TEST_MODULES = test_MACHINE
COCOTB_HDL_TIMEUNIT = 1ns
COCOTB_HDL_TIMEPRECISION = 1ps
SIM_BUILD ?= $(BUILD)/sim_build
COCOTB_RESULTS_FILE ?= $(BUILD)/results.xml
ifeq ($(SIM),verilator)
COMPILE_ARGS += $(QUIET)
endif
include $(shell cocotb-config --makefiles)/Makefile.sim
endif
