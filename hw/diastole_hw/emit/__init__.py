"""Emission: from components to a product directory."""
