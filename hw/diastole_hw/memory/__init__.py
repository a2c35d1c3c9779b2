"""Memories on the chip."""
