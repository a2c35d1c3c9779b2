"""Programs of the vector unit: texts of chains, programs of layers and optimisers, and whole
runs."""
