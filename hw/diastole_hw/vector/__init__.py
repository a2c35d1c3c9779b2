"""Vector unit: micro-programs over blocks, their streams, special functions."""
