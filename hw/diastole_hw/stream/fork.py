"""One stream into several."""

from amaranth.hdl import Const


def fork(m, source, *sinks):
    """Copy a stream into several, which take each item in the same cycle."""
    ready = Const(1)
    for sink in sinks:
        ready = ready & sink.ready
        m.d.comb += sink.payload.eq(source.payload)
    for sink in sinks:
        m.d.comb += sink.valid.eq(source.valid & ready)
    m.d.comb += source.ready.eq(ready)
