"""Arithmetic in binary32: sums, products, special functions, and conversions of numbers."""
