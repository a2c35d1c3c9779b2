# `make` builds the machine in Verilator with host.c, and runs it. Verilator cannot build in a folder
# whose path has a space: the build is then in a temporary folder, whose name is kept in build_folder.
SOURCES := $(addprefix ../,$(shell cat ../MACHINE.f))
QUIET := -Wno-fatal -Wno-lint -Wno-style -Wno-INITIALDLY -Wno-UNOPTFLAT
ifeq ($(words $(CURDIR)),1)
BUILD := build
else
BUILD := $(shell cat build_folder 2>/dev/null || mktemp -d | tee build_folder)
endif

.PHONY: run
run: $(BUILD)/host
	$(BUILD)/host

# The link gives this folder a path without a space.
$(BUILD)/host: host.c board.cpp MACHINE.h MACHINE_driver.h MACHINE_vectors.h $(SOURCES)
	mkdir -p $(BUILD)
	ln -sfn "$(CURDIR)" $(BUILD)/sw
	verilator --cc --exe --build -j 2 $(QUIET) --prefix Vmachine --top-module MACHINE \
	  -Mdir $(BUILD) -o host -CFLAGS -Isw \
	  $(SOURCES) sw/host.c sw/board.cpp > build.log
