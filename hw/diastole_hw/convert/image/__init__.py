"""Write the images of a tensor: groups in their order, packed into beats, and the maxima."""
