"""Convert float32 tensors in memory to images of quantised blocks in memory."""
