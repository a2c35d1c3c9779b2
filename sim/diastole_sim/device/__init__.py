"""Define the interface of a device, and the code that simulated hardware and golden model share."""
