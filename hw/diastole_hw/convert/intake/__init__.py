"""Reads the floats of a tensor: its tiles, in their order, into the buffer of tiles."""
