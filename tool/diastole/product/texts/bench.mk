# `make` runs the bench in cocotb, `make bench` the one in plain Verilog, which needs no Python; with
# SIM=verilator on Verilator, else on Icarus.
SIM ?= icarus
SOURCES := $(patsubst rtl/%,$(CURDIR)/../rtl/%,$(shell cat ../MACHINE.f))

ifeq ($(MAKECMDGOALS),bench)
.PHONY: bench
ifeq ($(SIM),verilator)
bench:
	verilator --binary --timing -Wno-fatal -Wno-lint -Wno-style -Mdir bench_build -o bench \
	  --top-module MACHINE_tb ../lint/MACHINE.vlt MACHINE_tb.v $(SOURCES) > bench_build.log
	./bench_build/bench
else
bench:
	iverilog -g2012 -o bench.vvp MACHINE_tb.v $(SOURCES)
	vvp -n bench.vvp
endif
else
TOPLEVEL_LANG = verilog
VERILOG_SOURCES = $(CURDIR)/MACHINE_wrapper.v $(SOURCES)
COCOTB_TOPLEVEL = MACHINE_wrapper
COCOTB_TEST_MODULES = test_MACHINE
COCOTB_HDL_TIMEUNIT = 1ns
COCOTB_HDL_TIMEPRECISION = 1ps
ifeq ($(SIM),verilator)
COMPILE_ARGS += -Wno-fatal -Wno-lint -Wno-style $(CURDIR)/../lint/MACHINE.vlt
endif
include $(shell cocotb-config --makefiles)/Makefile.sim
endif
