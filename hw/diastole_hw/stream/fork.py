"""Fork a stream into several streams."""

from amaranth.hdl import Const
from amaranth.lib import data


def fork(m, source, *sinks):
    """Copy a stream into several sinks. All sinks accept an item in the same cycle. If the payload
    of a sink is a structure, the sink gets only its own members, and only as many low bits as
    fit."""
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
