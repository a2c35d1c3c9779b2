"""The product engine: load, execute and store, set up and run."""
