"""Layers of networks, and what they cost on a machine."""
