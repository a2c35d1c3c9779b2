"""Write the files that a flow needs to put a machine on a board, as text."""
