"""Quantise: find the exponents of units, and turn floats into elements in the lanes."""
