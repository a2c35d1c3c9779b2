"""Boards: what a flow needs to put a machine on them, as text."""
