"""What goes wrong with a board, as opposed to the machine on it."""


class BoardError(Exception):
    """The board is not there, is another one, or has ceased to answer."""


class PortError(BoardError):
    """There is no such port, or it cannot be opened."""


class LinkLost(BoardError):
    """No answer comes any more, or the port has gone."""


class WrongBoard(BoardError):
    """What answers is no board of ours, or one with another machine on it."""
