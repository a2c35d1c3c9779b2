"""Convert beats to blocks of inputs, and blocks of outputs to beats, for the vector unit."""
