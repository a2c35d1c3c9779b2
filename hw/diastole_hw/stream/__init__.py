"""Parts of streams: queues, credits, forks, gearboxes, turning arrays, stored elements."""
