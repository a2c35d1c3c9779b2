"""Operations of a graph: a file for each family, with shape, value and gradient side by side."""
