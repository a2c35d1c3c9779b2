"""From the accumulators to memory: drains, floats, rows."""
