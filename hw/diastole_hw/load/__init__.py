"""Load unit, from memory to the scratchpads: requests, parsing, block targets."""
