"""Contract of host, hardware and golden model: formats, numbers, image, commands, registers."""
