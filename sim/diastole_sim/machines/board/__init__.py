"""Board behind a serial line, as a machine for devices and programs."""
