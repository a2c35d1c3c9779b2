"""Feeds and drains the vector unit: blocks from beats, and beats from blocks."""
