"""Layers of networks, and the cost of layers on a machine."""
