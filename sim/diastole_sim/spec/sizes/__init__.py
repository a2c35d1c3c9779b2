"""Sizes of a machine in integers: hardware, model, manifest and driver read the same."""
