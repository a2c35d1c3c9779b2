"""What everybody needs who moves rows of a tensor: addresses."""
