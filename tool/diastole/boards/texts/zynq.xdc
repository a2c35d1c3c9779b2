# @NAME@ on the @BOARD@. The processor's block defines the clock, of @CLOCK_MHZ@ MHz, and all of the machine runs on it; there
# are no pins. What follows keeps the reset, which comes from another clock, out of the timing.
set_false_path -to [get_pins -quiet -hierarchical -filter {NAME =~ *reset/U0/EXT_LPF/*/D}]
