"""Turn a graph into commands: a training program for a machine with a vector unit."""
