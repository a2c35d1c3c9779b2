"""Product engine: load, execute and store, set up and run."""
