"""The fMAC cell and its units."""
