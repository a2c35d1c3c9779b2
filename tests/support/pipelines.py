# amaranth: UnusedElaboratable=no
"""Units without handshakes: a case in every cycle, results some cycles later.

def test_products(rng):
    dut = Function({"a": 8, "b": 8}, {"o": 16}, lambda m, a, b: a * b)  # or any unit
    pairs = [(rng.getrandbits(8), rng.getrandbits(8)) for _ in range(100)]
    check_pipeline(dut, [({"a": a, "b": b}, {"o": a * b}) for a, b in pairs], latency=0)
"""

from amaranth.hdl import Module, ShapeCastable, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from support.bench import run
from support.unit_values import differences, plain, set_members, shown


class Built(wiring.Component):
    """A unit with these members, described by ``build(m, unit)``."""

    def __init__(self, members, build):
        self.build = build
        super().__init__(members)

    def elaborate(self, platform):
        m = Module()
        self.build(m, self)
        return m


class Function(Built):
    """A unit without state: its outputs are what ``function(m, *inputs)`` returns, a value or
    several. ``inputs`` and ``outputs``: shapes by name."""

    def __init__(self, inputs, outputs, function):
        def build(m, unit):
            given = (getattr(unit, name) for name in inputs)
            values = function(m, *given)
            values = values if isinstance(values, tuple | list) else [values]
            for name, value in zip(outputs, values, strict=True):
                m.d.comb += Value.cast(getattr(unit, name)).eq(value)

        members = {name: In(shape) for name, shape in inputs.items()}
        super().__init__(members | {name: Out(shape) for name, shape in outputs.items()}, build)


def check_pipeline(dut, cases, latency: int, *, hold=None, delays=None):
    """Check a unit without handshakes: a case in every cycle, its results ``latency`` later.

    ``cases``: (inputs, outputs) by their names; what an output is in a case that does not name the
    output does not count. ``hold``: inputs that stay. ``delays``: by name, the cycles from a case
    to an input that is due later, or to an output that comes at another time than the others.
    Returns the outputs of each case, as bits.
    """
    cases, delays = list(cases), delays or {}
    found: list = [{} for _ in cases]
    names = {name: None for _, want in cases for name in want}
    after = {name: delays.get(name, latency) for name in names}
    last = max([*after.values(), *delays.values()])

    async def bench(ctx):
        set_members(ctx, dut, **hold or {})
        for cycle in range(len(cases) + last):
            for delay in {0, *delays.values()}:
                if 0 <= (number := cycle - delay) < len(cases):
                    given = cases[number][0].items()
                    mine = {name: value for name, value in given if delays.get(name, 0) == delay}
                    set_members(ctx, dut, **mine)
            outputs = [Value.cast(getattr(dut, name)) for name in names]
            _, _, *bits = await ctx.tick().sample(*outputs)
            for name, got in zip(names, bits, strict=True):
                if 0 <= (number := cycle - after[name]) < len(cases):
                    given, want = cases[number]
                    found[number][name] = got
                    if wrong := output_differences(dut, name, got, want.get(name)):
                        case = f"{type(dut).__name__}, case {number} {shown(given)}"
                        raise AssertionError(f"{case}: {'; '.join(wrong)}")

    run(dut, bench, limit=len(cases) + last + 1)
    return found


def output_differences(dut, name, bits, want):
    """What an output's bits have that an integer, a list or a dictionary has not."""
    if bits == want:
        return []
    shape = getattr(dut, name).shape()
    whole = not isinstance(want, dict | list | tuple) or not isinstance(shape, ShapeCastable)
    return differences(want, bits if whole else plain(shape.from_bits(bits)), name)
