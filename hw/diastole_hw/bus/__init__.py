"""AXI: the memory port and the register port."""
