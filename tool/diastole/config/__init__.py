"""The configuration: keys, file, contradictions between keys, presets."""
