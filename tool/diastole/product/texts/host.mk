# `make` builds the machine in Verilator with host.c, in the folder build, and runs it. A program of your
# own: `make HOST=mine.c`.
HOST = host.c
SOURCES := $(addprefix ../,$(shell cat ../MACHINE.f))
QUIET := -Wno-fatal -Wno-lint -Wno-style -Wno-INITIALDLY -Wno-UNOPTFLAT
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
