"""Registers that need no reset: they hold data, and one of control says when these mean something.

A reset of such a register is a gate per bit, and a net to every one of them, for nothing.
"""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data

KEEP = {"keep": "true"}
"""Attributes of a signal whose registers are merged with no others of the same value: of copies
each drives what is near it. The text of a product says it as tools look for it."""


def data_register(shape=1, *, name: str | None = None):
    """A register without a reset, of its own name where ``name`` is left out."""
    return Signal(shape, name=name, reset_less=True, src_loc_at=1)


def data_output(m: Module, port, name: str):
    """The register without a reset that ``port``, an output, shows."""
    register = Signal(port.shape(), name=name, reset_less=True)
    m.d.comb += Value.cast(port).eq(Value.cast(register))
    return register


def delayed_record(m: Module, record: data.View, name: str, *, control: tuple[str, ...]):
    """``record`` of the cycle before. Its members ``control`` have a reset, the others none."""
    following = Signal(record.shape(), name=name)
    members = record.shape().members
    registers = []
    for member, shape in members.items():
        kept = Signal(shape, name=f"{name}_{member}", reset_less=member not in control)
        m.d.sync += Value.cast(kept).eq(Value.cast(record[member]))
        registers.append(Value.cast(kept))
    m.d.comb += Value.cast(following).eq(Cat(registers))
    return following
