# `make` builds the machine in Verilator with host.c, in the folder build, and runs the program.
# `make HOST=mine.c` builds and runs the program mine.c.
HOST = host.c
SOURCES := $(addprefix ../,$(shell cat ../MACHINE.f))
QUIET := -Wno-fatal -Wno-lint -Wno-style -Wno-INITIALDLY -Wno-UNOPTFLAT
SCRATCH
PROGRAM := $(basename $(notdir $(HOST)))
.PHONY: run
run: $(BUILD)/$(PROGRAM)
	$(BUILD)/$(PROGRAM)

# The link sw is a path of this folder without spaces.
$(BUILD)/$(PROGRAM): $(HOST) board.cpp MACHINE.h MACHINE_driver.h MACHINE_vectors.h $(SOURCES)
	mkdir -p $(BUILD)
	ln -sfn "$(CURDIR)" $(BUILD)/sw
	+$(VERILATOR) --cc --exe --build $(JOBS) $(QUIET) --prefix Vmachine --top-module MACHINE \
	  -Mdir $(BUILD) -o $(PROGRAM) -CFLAGS -Isw -MAKEFLAGS $(HEADER) \
	  $(SOURCES) sw/$(HOST) sw/board.cpp > $(BUILD)/build.log
