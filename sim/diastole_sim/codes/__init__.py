"""Number formats for people: codes and scales as standards define them, and surveys of data."""
