"""Create registers that need no reset: data, whose validity a control register tells.

A reset of a data register would cost a gate per bit and a net to every bit, for nothing.
"""

from amaranth.hdl import Cat, Module, Signal, Value
from amaranth.lib import data

KEEP = {"keep": "true"}
"""Attributes of a signal whose registers synthesis must not merge with registers of equal value: a
copy drives the logic nearby. The text of a product states the attribute in the form that tools
read."""


def data_register(shape=1, *, name: str | None = None):
    """Return a register without a reset. Without ``name``, it has the name of the assigned
    variable."""
    return Signal(shape, name=name, reset_less=True, src_loc_at=1)


def data_output(m: Module, port, name: str):
    """Return a register without a reset that drives the output ``port``."""
    register = Signal(port.shape(), name=name, reset_less=True)
    m.d.comb += Value.cast(port).eq(Value.cast(register))
    return register


def one_later(m: Module, value: Value, name: str):
    """Return ``value`` delayed by 1 cycle, in a register without a reset."""
    register = data_register(value.shape(), name=name)
    m.d.sync += register.eq(value)
    return register


def delayed_record(m: Module, record: data.View, name: str, *, control: tuple[str, ...]):
    """Return ``record`` delayed by 1 cycle. Its members ``control`` have a reset, the remaining
    members none."""
    following = Signal(record.shape(), name=name)
    members = record.shape().members
    registers = []
    for member, shape in members.items():
        register = Signal(shape, name=f"{name}_{member}", reset_less=member not in control)
        m.d.sync += Value.cast(register).eq(Value.cast(record[member]))
        registers.append(Value.cast(register))
    m.d.comb += Value.cast(following).eq(Cat(registers))
    return following
