"""A product stepped through cycle by cycle: what the waves of the machine say, as a page."""
