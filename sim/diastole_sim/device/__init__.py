"""What every device does, be it simulated hardware or the golden model."""
