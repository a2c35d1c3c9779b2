"""The configuration: its keys, its file, what does not go together, presets."""
