"""From the scratchpads through the array to the accumulators: passes and their slots."""
