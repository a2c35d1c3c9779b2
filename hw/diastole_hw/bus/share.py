"""One service, several owners: who has the bus now."""

from collections.abc import Sequence

from amaranth.hdl import Module, ValueLike
from amaranth.lib import wiring


def share(m: Module, service, owners: Sequence[tuple[ValueLike | None, wiring.PureInterface]]):
    """Connect ``service`` to the first of ``owners`` whose condition holds; None always does.

    ``service``: an interface of the signature of the owners, turned round, such as
    ``flipped(self.read)`` inside a component. An owner that has it not sees nothing: no ``ready``,
    no ``valid``. Conditions must not change while a request is unanswered, which is not checked
    here. Combinational.

    ValueError unless the last owner, and no other, has the condition None.
    """
    lasts = [condition is None for condition, _ in owners]
    if lasts != [False] * (len(lasts) - 1) + [True]:
        raise ValueError("the last owner, and no other, must have the condition None")
    (condition, owner), *others = owners
    if condition is None:
        wiring.connect(m, service, owner)
        return
    with m.If(condition):
        wiring.connect(m, service, owner)
    for condition, owner in others[:-1]:
        with m.Elif(condition):
            wiring.connect(m, service, owner)
    with m.Else():
        wiring.connect(m, service, others[-1][1])
