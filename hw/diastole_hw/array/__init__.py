"""The array of cells and its rows."""
