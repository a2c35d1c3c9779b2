"""Read the floats of a tensor, tile by tile in the order of the tiles, into the buffer of tiles."""
