"""Programs of the vector unit: their text, those of the layers and optimisers, and whole runs."""
