"""What host and machine agree on: the memory image, commands and registers."""
