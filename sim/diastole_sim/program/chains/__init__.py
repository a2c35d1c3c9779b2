"""Programs of the layers, losses and optimisers, a file for each family."""
