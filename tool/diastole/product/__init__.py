"""The directory that `generate` writes, and those kept for next time."""
