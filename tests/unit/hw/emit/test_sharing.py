# amaranth: UnusedElaboratable=no
import dataclasses
import enum

import pytest
from amaranth.hdl import (
    Assert,
    DomainRenamer,
    Fragment,
    Instance,
    Module,
    ResetInserter,
    Signal,
    unsigned,
)
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.emit.sharing import EmitPlatform, component_key, convert_ports, plain
from diastole_hw.memory.ram import Ram
from support.texts import exactly


def test_equal_components_share_a_module(add):
    platform = EmitPlatform()
    types = [platform.instance(add(*args)).type for args in [(8,), (4,), (8,), (4,)]]
    assert types[0] == types[2] != types[1] == types[3]
    assert [module.parameters["width"] for module in platform.modules] == [8, 4]


def test_equal_keys_give_equal_rtlil(add):
    for parameters in [{"width": 8}, {"width": 8, "stages": 1}, {"width": 3, "offset": 2}]:
        texts = set()
        keys = set()
        for _ in range(2):
            platform = EmitPlatform()
            platform.instance(add(**parameters))
            texts.add(platform.modules[0].rtlil)
            keys.add(component_key(platform.modules[0].component))
        assert len(texts) == len(keys) == 1, parameters


def test_default_parameters_are_part_of_the_key(add):
    platform = EmitPlatform()
    one, other = platform.instance(add(8)), platform.instance(add(8, offset=1))
    assert one.type != other.type


class Ported(wiring.Component):
    """A class that says that no parameter matters, with whatever ports."""

    def __init__(self, members):
        self.shared_parameters = {}
        super().__init__(members)

    def elaborate(self, platform):
        return Module()


def test_components_with_other_ports_do_not_share_a_module():
    members = [{"o": Out(1)}, {"o": Out(2)}, {"o": In(1)}, {"p": Out(1)}, {"o": Out(1)}]
    keys = [component_key(Ported(each)) for each in members]
    assert len(set(keys)) == 4
    assert keys[0] == keys[4]


def test_a_port_of_no_bits_is_none():
    assert set(EmitPlatform().instance(Ported({"o": Out(1), "none": Out(0)})).ports) == {"o"}


def test_instance_is_wired_to_the_components_own_ports(add):
    component = add(8)
    instance = EmitPlatform().instance(component)
    assert isinstance(instance, Instance)
    wired = {name: (value, kind) for name, (value, kind) in instance.ports.items()}
    assert wired["a"] == (component.a, "i")
    assert wired["b"] == (component.b, "i")
    assert wired["o"] == (component.o, "o")


@pytest.mark.parametrize("stages, clocking", [(0, set()), (1, {"clk", "rst"})])
def test_clock_and_reset_only_where_the_module_has_them(add, stages, clocking):
    instance = EmitPlatform().instance(add(8, stages=stages))
    assert set(instance.ports) == {"a", "b", "o"} | clocking


def test_memory_has_a_clock_and_no_reset():
    platform = EmitPlatform()
    instance = platform.instance(Ram(width=4, depth=8))
    assert "clk" in instance.ports
    assert "rst" not in instance.ports
    assert platform.modules[0].rtlil is None


class Forgetful(wiring.Component):
    def __init__(self, size):
        super().__init__({"o": Out(size)})

    def elaborate(self, platform):
        return Module()


class Variadic(wiring.Component):
    def __init__(self, *sizes):
        super().__init__({"o": Out(sizes[0])})

    def elaborate(self, platform):
        return Module()


class ForeignDomain(wiring.Component):
    o: Out(1)

    def elaborate(self, platform):
        m = Module()
        m.d.fast += self.o.eq(~self.o)
        return m


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda: Forgetful(3),
            (
                "Forgetful keeps no attribute 'size': a shared component keeps the parameters of "
                "its constructor"
            ),
        ),
        (lambda: Variadic(3), "Variadic: cannot compare a class with *sizes"),
        (
            ForeignDomain,
            "ForeignDomain has inputs outside its signature: fast_clk, fast_rst",
        ),
    ],
)
def test_what_cannot_be_shared(make, message):
    component = make()
    with pytest.raises(TypeError) as caught:
        EmitPlatform().instance(component)
    assert str(caught.value) == message


class Colour(enum.Enum):
    RED = 1
    BLUE = 2


@dataclasses.dataclass(frozen=True)
class Plan:
    size: int
    colours: tuple


class Triple(data.Struct):
    a: unsigned(2)
    b: unsigned(1)


DISTINCT = [
    None,
    0,
    1,
    True,
    1.0,
    "1",
    Colour.RED,
    Colour.BLUE,
    (1, 2),
    (2, 1),
    ((1, 2),),
    {"a": 1},
    {"a": 2},
    Plan(1, (Colour.RED,)),
    Plan(1, (Colour.BLUE,)),
    unsigned(3),
    Triple,
    data.ArrayLayout(unsigned(1), 3),
    data.StructLayout({"a": unsigned(3)}),
    data.StructLayout({"b": unsigned(3)}),
]


def test_plain_tells_different_values_apart():
    assert len({plain(value) for value in DISTINCT}) == len(DISTINCT)


def test_plain_of_equal_values_is_equal():
    assert plain(Plan(1, (Colour.RED,))) == plain(Plan(1, (Colour.RED,)))
    assert plain(data.StructLayout({"a": 3})) == plain(data.StructLayout({"a": 3}))


def test_plain_refuses_what_it_cannot_compare():
    with pytest.raises(TypeError, match=exactly("cannot compare a parameter of type Signal")):
        plain(Signal())


class Half(wiring.Component):
    """Two parameters whose effect is only on the inside."""

    def __init__(self, *, plan: Plan, invert: bool):
        self.plan, self.invert = plan, invert
        super().__init__({"a": In(4), "o": Out(4)})

    def elaborate(self, platform):
        m = Module()
        m.d.comb += self.o.eq((~self.a if self.invert else self.a) + self.plan.size)
        return m


def test_parameters_that_show_in_no_port_still_tell_components_apart():
    platform = EmitPlatform()
    variants = [(1, False), (1, True), (2, False), (1, False)]
    types = [platform.instance(Half(plan=Plan(s, ()), invert=i)).type for s, i in variants]
    assert len(set(types)) == 3
    assert types[0] == types[3]


class Around(wiring.Component):
    """Another component in it, and a module that is none, with a rule."""

    a: In(4)
    o: Out(4)

    def elaborate(self, platform):
        m = Module()
        m.submodules.half = half = Half(plan=Plan(1, ()), invert=False)
        m.submodules.part = part = Module()
        part.d.sync += Assert(self.a != 3)
        m.d.comb += [half.a.eq(self.a), self.o.eq(half.o)]
        return m


def test_a_component_is_met_before_those_in_it():
    platform, top = EmitPlatform(), Module()
    top.submodules.around = Around()
    platform.convert(top, "top", {})
    assert [type(module.component) for module in platform.modules] == [Around, Half]


def test_no_rule_of_a_module_in_a_component_is_left():
    platform = EmitPlatform()
    assert set(platform.instance(Around()).ports) == {"a", "o"}  # and no clock
    assert "$check" not in platform.modules[0].rtlil


class Twice(wiring.Component):
    """Two equal adders, the second of which a transformer of Amaranth changes."""

    a: In(8)
    o: Out(8)

    def __init__(self, add, transform):
        self.add, self.transform = add, transform
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        m.submodules.first = first = self.add(8, stages=1)
        second = self.add(8, stages=1)
        m.submodules.second = self.transform(second)
        m.d.comb += [first.a.eq(self.a), second.a.eq(first.o), self.o.eq(second.o)]
        return m


def converted(top):
    platform = EmitPlatform()
    return platform, platform.convert(top, "top", convert_ports(top))


def test_a_component_in_another_clock_domain_shares_the_module(add):
    platform, text = converted(Twice(add, DomainRenamer("fast")))
    assert [type(module.component).__name__ for module in platform.modules] == ["Add"]
    assert text.count("cell \\%0 ") == 2
    assert text.count("connect \\clk \\fast_clk") == 1


def test_a_transformer_that_an_instance_would_not_notice_is_refused(add):
    with pytest.raises(TypeError, match=exactly("a design may not have a ResetInserter")):
        converted(Twice(add, ResetInserter(Signal())))


def test_amaranth_is_as_it_was_afterwards(add):
    before = Fragment.get
    converted(Twice(add, DomainRenamer("fast")))
    assert Fragment.get is before
    with pytest.raises(TypeError):
        converted(Twice(add, ResetInserter(Signal())))
    assert Fragment.get is before


def test_without_the_platform_every_component_is_elaborated_by_amaranth_alone(demo):
    inner = [fragment for fragment, _, _ in Fragment.get(demo, None).subfragments]
    assert len(inner) == 5
    assert not any(isinstance(fragment, Instance) for fragment in inner)
