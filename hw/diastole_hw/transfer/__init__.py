"""Address arithmetic for all units that move rows of a tensor."""
