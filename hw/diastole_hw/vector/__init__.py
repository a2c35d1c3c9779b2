"""Vector unit: micro-programs over blocks, streams of operands and results, special functions."""
