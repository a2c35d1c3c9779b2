# `make` builds the machine in Verilator with host.c, in the folder build, and runs it.
SOURCES := $(addprefix ../,$(shell cat ../MACHINE.f))
QUIET := -Wno-fatal -Wno-lint -Wno-style -Wno-INITIALDLY -Wno-UNOPTFLAT
SCRATCH
.PHONY: run
run: $(BUILD)/host
	$(BUILD)/host

# The link gives this folder a path without a space.
$(BUILD)/host: host.c board.cpp MACHINE.h MACHINE_driver.h MACHINE_vectors.h $(SOURCES)
	mkdir -p $(BUILD)
	ln -sfn "$(CURDIR)" $(BUILD)/sw
	+verilator --cc --exe --build $(JOBS) $(QUIET) --prefix Vmachine --top-module MACHINE \
	  -Mdir $(BUILD) -o host -CFLAGS -Isw \
	  $(SOURCES) sw/host.c sw/board.cpp > $(BUILD)/build.log
