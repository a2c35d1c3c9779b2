"""One module per command: ``add_parser`` describes its arguments, ``execute`` does it."""
