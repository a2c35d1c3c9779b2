"""Random bits for stochastic rounding, from hashed counters and from shift registers."""
