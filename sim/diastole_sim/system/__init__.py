"""Use the computer: programs to call and to end, packages, folders kept in a cache."""
