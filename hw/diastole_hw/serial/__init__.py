"""Machine on a board without a processor: a serial line, a bridge, and memory on the chip."""
