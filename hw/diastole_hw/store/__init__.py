"""Store results, from the accumulators to memory: drains, floats, rows."""
