"""The converter: float32 tensors in memory to quantised block images in memory."""
