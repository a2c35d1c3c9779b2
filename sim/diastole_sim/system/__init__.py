"""What the computer itself has: programs to call and to end, packages, folders kept in a cache."""
