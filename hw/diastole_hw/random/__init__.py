"""Counter-based random bits for stochastic rounding."""
