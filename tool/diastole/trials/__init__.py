"""Try formats on a user's tensors: choose the formats, and judge the products."""
