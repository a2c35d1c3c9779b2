"""The array of cells, and the layouts of what enters and leaves it."""
