"""The loops of a product, what its units tell each other, and which blocks each part needs."""
