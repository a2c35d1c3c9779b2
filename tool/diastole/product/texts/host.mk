# `make` builds the machine in Verilator with host.c, and runs it.
SOURCES := $(patsubst rtl/%,$(CURDIR)/../rtl/%,$(shell cat ../MACHINE.f))

.PHONY: run
run: build/host
	build/host

build/host: host.c board.cpp MACHINE.h MACHINE_driver.h MACHINE_vectors.h $(SOURCES)
	verilator --cc --exe --build -j 2 -Wno-fatal -Wno-lint -Wno-style --prefix Vmachine \
	  --top-module MACHINE -Mdir build -o host -CFLAGS -I$(CURDIR) \
	  $(CURDIR)/../lint/MACHINE.vlt $(SOURCES) $(CURDIR)/host.c $(CURDIR)/board.cpp > build.log
