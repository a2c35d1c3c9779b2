"""A board behind a serial line, as a machine that devices and programs run on."""
