"""What must always hold, said where it must hold: checked in simulation and in proofs."""

from amaranth.hdl import Assert, Module, ValueLike

from diastole_hw.place import EmitPlatform


def invariant(m: Module, platform, condition: ValueLike, message: str, *, domain: str = "sync"):
    """Let ``condition`` hold at every clock edge of ``domain``, or the simulation stops with
    ``message``. Where ``platform`` emits Verilog, nothing is added: no gate depends on it.

    A specification that wraps the unit proves it too, and counts it among its assertions.
    """
    if not isinstance(platform, EmitPlatform):
        m.d[domain] += Assert(condition, message)
