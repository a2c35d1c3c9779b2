"""Mapping to FPGAs and to standard cells, place and route: by component, in its own names."""
