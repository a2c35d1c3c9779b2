"""The hardware of Diastole: everything that becomes gates, and nothing else."""
