"""What the vector unit computes, to the bit: numbers and special functions, on whole arrays."""
