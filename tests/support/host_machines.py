"""Machines of every kind that a host may meet, and a stand-in for their registers."""

from diastole.config.keys import Config, VectorConfig
from diastole.product.host_view import HostView
from support.products import MACHINES, grouped, machine

CONFIGS: dict[str, Config] = {
    "squares": machine("squares", ("bfp3", "bfp5", "bfp2"), side=2, data_width=32),
    "single": MACHINES["textbook"],
    "vectors": machine("vectors_1x16", "bfp4", side=4, data_width=128, **grouped("1x16")),
    "long_vectors": machine("long_vectors", "bfp4", side=2, **grouped("1x128")),
    "tensors": MACHINES["fp8_e5m2"],
    "two_levels": MACHINES["nvfp4"],
    "planes": MACHINES["fast_6_8"],
    "planes_w": MACHINES["fast_w"],
    "floats": machine("floats", "bfp4").model_copy(update={"vector": VectorConfig(enable=True)}),
    # Sums that are not exact, an array that is not square, two copies.
    "chained_vectors": machine(
        "chained_vectors",
        *("bfp4",),
        rows=2,
        side=2,
        accumulator={"fraction": 0, "headroom": 9},
        vector={"enable": True},
        **grouped("1x4"),
    ),
    "tall": machine("tall", "bfp4", rows=2, cols=4, side=2),
    "choices": machine("choices", "fast", side=8).model_copy(
        update={"vector": VectorConfig(enable=True)}
    ),
}
"""By what is peculiar: groups of every kind, headers, planes, vector units."""
VIEWS = {name: HostView.of(config) for name, config in CONFIGS.items()}


class FakeRegisters:
    """Words of registers by offset, and what was done to them.

    ``next``: by offset, values that the next reads of it give, before the one in ``words``.
    """

    def __init__(self, view: HostView):
        self.words: dict[int, int] = {}
        self.next: dict[int, list[int]] = {}
        self.written: list[tuple[int, int]] = []
        for register in view.registers:
            self.words[register.offset] = view.published.reset_value(register)
            if register.words > 1:
                self.words[register.offset + 4] = 0

    def read(self, offset: int) -> int:
        """A word of a register that there is."""
        queue = self.next.get(offset)
        return queue.pop(0) if queue else self.words[offset]

    def write(self, offset: int, value: int) -> None:
        """Note it, and keep it."""
        assert offset in self.words
        assert 0 <= value < 1 << 32
        self.written.append((offset, value))
        self.words[offset] = value
