"""Runs programs over blocks: fetches instructions, checks them, issues them to the lanes."""
