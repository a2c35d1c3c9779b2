"""One stream into several."""

from amaranth.hdl import Const
from amaranth.lib import data


def fork(m, source, *sinks):
    """Copy a stream into several, which take each item in the same cycle; of a structure each sink
    takes the members that it has, and of these as many of the lowest bits."""
    ready = Const(1)
    for sink in sinks:
        ready = ready & sink.ready
        if isinstance(sink.payload, data.View):
            names = sink.p.shape().members
            m.d.comb += [sink.p[name].eq(source.p[name]) for name in names]
        else:
            m.d.comb += sink.payload.eq(source.payload)
    for sink in sinks:
        m.d.comb += sink.valid.eq(source.valid & ready)
    m.d.comb += source.ready.eq(ready)
