"""What a chain makes of its text, and the errors of its names."""

from diastole_sim.program.assembly import assemble
from diastole_sim.program.chain import Chain, Port, lines
from diastole_sim.spec.stream_table import Kind

CHAIN = Chain(
    name="scaled",
    text=lines("  r0 = mad s0 K[a] s1", "", "\n  mul r0 K[b] -> o2\n"),
    inputs={
        "x": Port(number=0, kinds=(Kind.F32, Kind.PANEL), meaning="one"),
        "y": Port(number=1, kinds=(Kind.COLUMN, Kind.PANEL), meaning="other"),
    },
    outputs={"z": Port(number=2, kinds=(Kind.F32, Kind.PANEL), meaning="result")},
    constants={"a": 2.0, "b": None},
)


def test_text_without_margin():
    assert CHAIN.text == "r0 = mad s0 K[a] s1\nmul r0 K[b] -> o2\n"


def test_constants_are_numbered():
    assert CHAIN.numbered(5) == {"a": 5, "b": 6}
    assert CHAIN.assembled(4) == assemble(CHAIN.text, {"a": 0, "b": 1}, block=4)
    numbers = {"a": 200, "b": 3}
    assert CHAIN.assembled(4, numbers) == assemble(CHAIN.text, numbers, block=4)


def test_kinds_of_streams():
    assert CHAIN.kinds({}) == {"x": Kind.F32, "y": Kind.COLUMN, "z": Kind.F32}
    assert CHAIN.kinds({"z": Kind.PANEL})["z"] == Kind.PANEL


def test_the_rules_of_panels_hang_on_kinds():
    assert CHAIN.assembled(4, kinds={"x": Kind.PANEL})


def test_whole_outputs_are_written_in_every_block():
    sometimes = Chain(name="last", text="mov 1 when last -> o2", outputs=CHAIN.outputs)
    assert sometimes.assembled(4, kinds={"z": Kind.PANEL})
