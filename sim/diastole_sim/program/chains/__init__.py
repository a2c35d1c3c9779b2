"""Chains of layers, losses and optimisers, in a file for each family."""
