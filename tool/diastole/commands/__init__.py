"""The commands, one module each: ``add_parser`` describes the arguments, ``execute`` does the
work."""
