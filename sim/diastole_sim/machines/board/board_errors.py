"""Errors of a board, as opposed to errors of the machine on the board."""


class BoardError(Exception):
    """Error: the board is missing, is a different board, or has ceased to answer."""


class PortError(BoardError):
    """Error: the port does not exist, or cannot be opened."""


class LinkLost(BoardError):
    """Error: no more answers arrive, or the port has gone."""


class WrongBoard(BoardError):
    """Error: the connected device is not a Diastole board, or the board does not hold the expected
    machine."""
