# `make` builds the machine in Verilator with host.c, in the folder build, and runs it. A program of your
# own: `make HOST=mine.c`.
HOST = host.c
SOURCES := $(addprefix ../,$(shell cat ../MACHINE.f))
QUIET := -Wno-fatal -Wno-lint -Wno-style -Wno-INITIALDLY -Wno-UNOPTFLAT
# The system's Verilator, else the Verilator of the Python package. The package does not know how g++ and
# clang include a precompiled header, and takes C++20 if CXXFLAGS is not set.
VERILATOR ?= $(shell command -v verilator-cli >/dev/null && ! command -v verilator >/dev/null && \
  echo verilator-cli || echo verilator)
HEADER := CFG_CXXFLAGS_PCH_I=-include
CXXFLAGS ?=
export CXXFLAGS
SCRATCH
PROGRAM := $(basename $(notdir $(HOST)))
.PHONY: run
run: $(BUILD)/$(PROGRAM)
	$(BUILD)/$(PROGRAM)

# The link gives this folder a path without a space.
$(BUILD)/$(PROGRAM): $(HOST) board.cpp MACHINE.h MACHINE_driver.h MACHINE_vectors.h $(SOURCES)
	mkdir -p $(BUILD)
	ln -sfn "$(CURDIR)" $(BUILD)/sw
	+$(VERILATOR) --cc --exe --build $(JOBS) $(QUIET) --prefix Vmachine --top-module MACHINE \
	  -Mdir $(BUILD) -o $(PROGRAM) -CFLAGS -Isw -MAKEFLAGS $(HEADER) \
	  $(SOURCES) sw/$(HOST) sw/board.cpp > $(BUILD)/build.log
