"""Commands: fetched, checked, dispatched to an engine, counted."""
