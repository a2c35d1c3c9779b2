"""Parts of streams: queues, credits, forks, gearboxes, transposing arrays, stored elements."""
