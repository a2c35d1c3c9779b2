"""Kinds of memories of a manifest, and their shapes."""

from diastole.synth.memories import Memories, MemoryShape, is_clocked

WRITE = {"kind": "write", "clock": "clk"}
CLOCKED = {"kind": "read", "clock": "clk", "latency_cycles": 1}
WITHIN = {"kind": "read", "latency_cycles": 0}


def entry(module, depth, width, *ports, instances=1):
    return {
        "module": module,
        "depth": depth,
        "width": width,
        "ports": [WRITE, *ports],
        "instances": instances,
    }


def test_every_read_port_is_clocked_or_the_memory_is_not():
    assert is_clocked(entry("m", 4, 8, CLOCKED))
    assert is_clocked(entry("m", 4, 8, CLOCKED, CLOCKED | {"latency_cycles": 2}))
    assert not is_clocked(entry("m", 4, 8, WITHIN))
    assert not is_clocked(entry("m", 4, 8, CLOCKED, WITHIN))


def test_shapes_are_added_up():
    entries = [
        entry("a", 4, 8, WITHIN, instances=3),
        entry("b", 2, 100, WITHIN),
        entry("c", 4, 8, WITHIN, instances=2),
        entry("d", 4, 8, WITHIN, WITHIN),
    ]
    found = Memories.of(entries)
    assert found.modules == ("a", "b", "c", "d")
    one = {"words": 4, "bits": 8, "write_ports": 1}
    assert found.shapes == (
        MemoryShape(words=2, bits=100, read_ports=1, write_ports=1, count=1),
        MemoryShape(read_ports=1, count=5, **one),
        MemoryShape(read_ports=2, count=1, **one),
    )
    assert (found.count, found.bits) == (7, 200 + 5 * 32 + 32)
    assert [str(each) for each in found.shapes] == [
        "2 x 100",
        "5 of 4 x 8",
        "4 x 8 (2 read ports, 1 write ports)",
    ]
    assert found.record()["shapes"][1] == {"read_ports": 1, "count": 5, **one}


def test_none():
    assert Memories.of([]).record() == {"count": 0, "bits": 0, "shapes": []}
