"""Arithmetic of binary32: sums, products, special functions, and other kinds of numbers."""
