"""Execute unit: passes and their slots, from the scratchpads through the array to the
accumulators."""
