"""Shapes of Amaranth's types for the sizes of a configuration, and modes of the array."""
