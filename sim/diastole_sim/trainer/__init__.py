"""Train the networks of tasks by programs, and report the results."""
