"""On-chip memories."""
