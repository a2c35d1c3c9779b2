"""Many trainings beside each other: formats, roundings, accumulators, precisions, seeds."""
