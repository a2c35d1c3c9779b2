"""Compare many trainings: formats, roundings, accumulators, precisions, seeds."""
