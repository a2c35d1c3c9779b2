"""Write tables and pictures."""
