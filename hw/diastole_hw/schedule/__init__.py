"""Loops of a product, records between units, and the blocks that every chunk needs."""
