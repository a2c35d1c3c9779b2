"""What follows from a configuration: sizes, uses of the array, tile lengths."""
