"""The comment above a module is its component's contract, in plain words."""

from amaranth.hdl import Module, unsigned
from amaranth.lib import data, stream, wiring
from amaranth.lib.wiring import In, Out

from diastole_hw.bus.axi_reader import AxiReader
from diastole_hw.emit.about import (
    WIDTH,
    about_component,
    contract_lines,
    first_paragraph,
    layout_fields,
)


class Explained(wiring.Component):
    """Take ``a`` apart, as :func:`diastole_hw.emit.about.layout_fields` does.

    ``o = a``, exactly. ValueError is not at the beginning here.

    Timing: none; see :class:`~diastole_hw.emit.sharing.EmitPlatform`.

    Parameters
    ----------
    width : int
        Bits.

    Members
    -------
    a : In(structure)
    o : Out(stream of unsigned(width))
        A \\ stroke.

    ValueError if width is out of range.
    """

    def __init__(self, *, width: int, layout: data.Layout):
        self.width, self.layout = width, layout
        super().__init__({"a": In(layout), "o": Out(stream.Signature(unsigned(width)))})

    def elaborate(self, platform):
        return Module()


INNER = data.StructLayout({"x": 3, "empty": 0})
LAYOUT = data.StructLayout({"low": 4, "inner": INNER, "list": data.ArrayLayout(2, 3), "top": 1})


def explained() -> Explained:
    made = Explained(width=5, layout=LAYOUT)
    made._MustUse__silence = True  # is not elaborated here
    return made


def test_contract_without_parameters_errors_and_marks():
    assert contract_lines(Explained) == [
        "Take a apart, as layout_fields does.",
        "",
        "o = a, exactly. ValueError is not at the beginning here.",
        "",
        "Timing: none; see EmitPlatform.",
        "",
        "Members",
        "-------",
        "a : In(structure)",
        "o : Out(stream of unsigned(width))",
        "    A / stroke.",
    ]
    assert first_paragraph(Explained) == ["Take a apart, as layout_fields does."]


def test_values_of_parameters_and_fields_of_ports():
    lines = about_component(explained())
    assert lines[-5:] == [
        "",
        "Parameters: width = 5",
        "",
        "Fields of packed ports, highest bit first:",
        "  a: top[13:13], list[12:7], inner.x[6:4], low[3:0]",
    ]


def test_a_variant_refers_to_the_first_of_its_class():
    lines = about_component(explained(), above="demo_explained_width4")
    assert lines == [
        "Take a apart, as layout_fields does.",
        "",
        "More is said above demo_explained_width4.",
        *about_component(explained())[-5:],
    ]


def test_fields_are_where_the_layout_has_them():
    assert list(layout_fields(LAYOUT)) == [
        *(("low", 0, 4), ("inner.x", 4, 3), ("list", 7, 6)),
        ("top", 13, 1),
    ]


def test_a_real_unit():
    reader = AxiReader(data_width=32)
    reader._MustUse__silence = True
    lines = about_component(reader)
    assert lines[0].startswith("AXI4 read manager: issue bursts ahead")
    assert "Parameters: data_width = 32, outstanding = 32" in lines
    assert "  data__payload: failed[36:36], units[35:32], data[31:0]" in lines
    assert not any("``" in line or line.startswith("ValueError") for line in lines)
    assert max(map(len, lines)) <= WIDTH + 3
