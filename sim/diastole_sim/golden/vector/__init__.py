"""Model the numbers, special functions and chains of the vector unit, to the bit, on whole
arrays."""
