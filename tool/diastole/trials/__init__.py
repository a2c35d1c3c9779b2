"""Formats tried on a user's tensors: which, and what becomes of the products."""
