"""Programs of the vector unit for tests, in few words."""

from oracle.vector_words import Instruction


def words(*instructions):
    """64-bit words of what :func:`op` gave."""
    return [Instruction(**each).word for each in instructions]


def op(code, a=0, b=0, c=0, **others):
    return {"op": code, "a": a, "b": b, "c": c} | others
