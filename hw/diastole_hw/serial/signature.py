"""The bridge's port to memory: a word at a time."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out


class WordPortSignature(wiring.Signature):
    """Seen from who asks. ``valid``, with ``write``, ``address`` in bytes, a multiple of 4, and
    ``word``, stays until ``done``, a pulse; with it come ``answer``, what was read, and
    ``response``, as AXI has it."""

    def __init__(self):
        super().__init__(
            {
                "valid": Out(1),
                "write": Out(1),
                "address": Out(32),
                "word": Out(32),
                "done": In(1),
                "answer": In(32),
                "response": In(2),
            }
        )
