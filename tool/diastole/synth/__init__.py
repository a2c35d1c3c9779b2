"""Map machines to FPGAs and standard cells, place and route, and report by component, in the names
of the components."""
