"""Quantises: exponents of units, and the elements that the lanes make of floats."""
