"""Emit a product directory from components."""
