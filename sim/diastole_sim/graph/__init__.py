"""Networks as graphs of operations: shapes, values and gradients in floating point."""
