"""Diastole: from one configuration file to the hardware that trains neural networks."""
