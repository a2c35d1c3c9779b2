"""What the model of cycles and bytes prints."""

import pytest

from diastole.config.presets import PRODUCTS_ONLY
from diastole.measure.cycles_model import (
    CHANGES,
    cycles_table,
    nests_table,
    parts_table,
    stored_bytes,
    what_if,
)
from diastole_sim.perf import Memory, ModelledMachine, estimate
from diastole_sim.spec.nest import Nest


def machine(**changes):
    sizes = {"rows": 2, "cols": 2, "block": 8, "element_bits": (5, 5, 5), "data_width": 64}
    return ModelledMachine(**sizes | {"in_place": True, "memory": Memory.axi(20)} | changes)


def test_stored_bytes():
    """16 x 16 in blocks of 8 x 8: two groups of two blocks, each a beat of exponents and 2 x 40
    bytes, and a beat each of row and column maxima. Every tensor is as large as every other."""
    one = stored_bytes(machine(), "forward", 16) // 2
    assert stored_bytes(machine(), "backward", 16) == 3 * one
    assert one >= 2 * (8 + 2 * 40)
    assert one % 8 == 0


def test_table():
    """The README's figures of `nano`."""
    lines = list(cycles_table(machine(), 512))
    assert lines[0] == "512 x 512 x 512; cycles without work by what was awaited"
    rows = {line.split()[0]: line.split() for line in lines[2:]}
    assert list(rows) == ["forward", "dx", "dw", "fused"]
    for op in ("forward", "dx", "dw"):
        assert 98.9 <= float(rows[op][2].rstrip("%")) <= 99.1
    assert float(rows["fused"][3]) == 1.025
    assert all(len(line) == len(lines[1]) for line in lines[2:])


def test_chosen_nests():
    """Of a small product they are faster than the machine's own; what is printed is what was."""
    nano = machine(data_width=128)
    lines = list(nests_table(nano, PRODUCTS_ONLY["nano"].plan.nests, 64))
    assert lines[0] == "64 x 64 x 64; in the nest that a host chooses"
    rows = {line.split()[0]: line.split() for line in lines[2:]}
    assert list(rows) == ["forward", "dx", "dw"]
    for op, (_, cycles, share, read, nest) in rows.items():
        found = estimate(nano, op, 64, 64, 64, Nest.parse(nest))
        assert (int(cycles), float(share.rstrip("%"))) == (
            found.cycles,
            pytest.approx(100 * found.utilisation, abs=0.005),
        )
        assert float(read) == pytest.approx(found.read_bytes / 1e6, abs=0.0005)
        assert found.cycles < 0.7 * estimate(nano, op, 64, 64, 64).cycles


def test_without_a_fused_pass():
    rows = [line.split()[0] for line in list(cycles_table(machine(in_place=False), 64))[2:]]
    assert rows == ["forward", "dx", "dw", "backward"]


def test_parts():
    """What every axis that may be parted gives; each part is a product of its own."""
    nano, config = machine(data_width=128), PRODUCTS_ONLY["nano"]
    lines = list(parts_table(nano, config.numerics, config.plan.nests, 64, 3))
    assert lines[0] == "64 x 64 x 64, shared by 3 machines"
    rows = {
        tuple(line.split()[:2]): [float(word) for word in line.split()[2:]] for line in lines[2:]
    }
    assert list(rows) == [
        *(("forward", axis) for axis in "mn"),
        *(("dx", axis) for axis in "mk"),
        *(("dw", axis) for axis in "nk"),
        ("backward", "k"),
    ]
    assert all(1 < speed_up <= 3 for _, speed_up, _ in rows.values())
    longest = estimate(nano, "backward", 64, 64, 24)
    shorter = estimate(nano, "backward", 64, 64, 16)
    assert rows["backward", "k"][0] == longest.cycles
    assert rows["backward", "k"][2] == round((2 * longest.read_bytes + shorter.read_bytes) / 1e6, 3)
    with pytest.raises(ValueError, match=r"\AM = 64 can be cut into 8 at most"):
        list(parts_table(nano, config.numerics, config.plan.nests, 64, 9))


def test_what_if():
    lines = list(what_if(machine(), 128))
    assert lines[0].split() == ["utilisation", "forward", "dx", "dw", "backward"]
    rows = {
        line[:30].strip(): [float(cell.rstrip("%")) for cell in line[30:].split()]
        for line in lines[1:]
    }
    assert list(rows) == list(CHANGES)
    for name in ("half of the accumulators", "loads not hidden"):
        assert all(worse < same for worse, same in zip(rows[name], rows["as it is"], strict=True))


def test_sizes_that_no_machine_has():
    with pytest.raises(ValueError, match="rows must be"):
        machine(rows=0)
