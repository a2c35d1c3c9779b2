"""From memory to the scratchpads: requests, parsing, block targets."""
