"""Parts of a program in groups: what one chain does, and what waits for another."""

import pytest

from diastole_sim.lowering.schedule import Multiplication, ProgramSchedule
from diastole_sim.program.chains.activations import relu
from diastole_sim.program.chains.elementwise import added, multiplied_gradient, scaled
from diastole_sim.program.fusion import FLOATS, ChainPart
from diastole_sim.program.memory_plan import BoundStream
from diastole_sim.spec.stream_table import Descriptor, Kind

SHAPE = (6, 5)


def stream(name, kind=Kind.F32):
    return BoundStream(name=name, descriptor=Descriptor(kind=kind))


def part(chain, reads, writes, **others):
    return ChainPart(chain=chain, shape=SHAPE, inputs=reads, outputs=writes, **others)


def forward(schedule, x, result, layer=0):
    schedule.multiply(
        Multiplication(
            layer=layer, operation="forward", m=6, n=5, k=4, operands={"x": x}, result=result
        )
    )


def grouped(schedule):
    """By group, its product and the values that its parts compute, and what memory receives."""
    return [
        (
            group.product and group.product.result,
            [value for each in group.parts for value in each.writes()],
            dict(group.stored),
        )
        for group in schedule.grouped().groups
    ]


def test_parts_join_the_product_they_read():
    schedule = ProgramSchedule(4)
    forward(schedule, "x", "y")
    forward(schedule, "x", "other", layer=1)
    schedule.add(part(relu().forward_chain(), {"input": "y"}, {"value": "a", "kept": "k"}))
    schedule.add(part(added(), {"input": "a", "other": "other"}, {"value": "sum"}))
    schedule.keep("sum", stream("result"))
    assert grouped(schedule) == [
        ("y", ["a", "k"], {"a": [FLOATS]}),
        ("other", ["sum"], {"sum": [FLOATS]}),
    ]


def test_an_image_has_the_number_of_its_first_layer():
    schedule = ProgramSchedule(4)
    for layer in (3, 1, 2):
        forward(schedule, "x", f"y{layer}", layer)
    assert schedule.image_layers == {("x", "x"): 1}


def test_a_part_waits_for_streams():
    """A sum of a row is known after its chain; what a chain reads, no earlier one may write."""
    losses = stream("losses", Kind.F32)
    for reads, writes, groups in (
        ({"input": "a"}, {"value": "b"}, 1),
        ({"input": "a", "other": losses}, {"value": "b"}, 2),
    ):
        schedule = ProgramSchedule(4)
        forward(schedule, "x", "y")
        schedule.add(part(scaled(2.0), {"input": "y"}, {"value": "a"}))
        schedule.add(part(scaled(3.0), {"input": "a"}, {"value": losses}))
        chain = scaled(2.0) if len(reads) == 1 else added()
        schedule.add(part(chain, reads, writes))
        schedule.keep("b", stream("result"))
        assert len(grouped(schedule)) == groups


@pytest.mark.parametrize("others", [{"apart": True}, {"skip": True}])
def test_a_part_of_another_kind_is_a_chain_of_its_own(others):
    schedule = ProgramSchedule(4)
    forward(schedule, "x", "y")
    schedule.add(part(scaled(2.0), {"input": "y"}, {"value": "a"}))
    schedule.add(part(scaled(3.0), {"input": "a"}, {"value": "b"}, **others))
    schedule.keep("b", stream("result"))
    assert grouped(schedule)[1] == (None, ["b"], {"b": [FLOATS]})


def test_the_second_image_of_a_chain_is_converted():
    """There is a single converter."""
    schedule = ProgramSchedule(4)
    forward(schedule, "x", "g")
    reads = {"above": "g", "input": stream("one"), "other": stream("two")}
    schedule.add(part(multiplied_gradient(), reads, {"input": "a", "other": "b"}))
    forward(schedule, "a", "c", 1)
    forward(schedule, "b", "d", 2)
    group = schedule.grouped().groups[0]
    assert dict(group.stored) == {"a": ["x"], "b": [FLOATS]}
    assert group.converted == [("b", "x")]


def test_a_full_chain_continues_over_memory():
    schedule = ProgramSchedule(4)
    forward(schedule, "x", "v0")
    for number in range(5):
        reads = {"input": f"v{number}", "other": stream(f"s{number}")}
        schedule.add(part(added(), reads, {"value": f"v{number + 1}"}))
    schedule.keep("v5", stream("result"))
    assert grouped(schedule) == [
        ("v0", ["v1", "v2", "v3"], {"v3": [FLOATS]}),
        (None, ["v4", "v5"], {"v5": [FLOATS]}),
    ]
