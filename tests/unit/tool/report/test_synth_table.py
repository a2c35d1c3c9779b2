"""Tables of what a machine takes."""

from dataclasses import replace

from diastole.report.synth_table import path_lines, share, synth_lines, what_matters
from diastole.synth.delays import ComponentDelay, Delays
from diastole.synth.flow import Request, Synthesis
from diastole.synth.memories import Memories
from diastole.synth.paths import LongestPath, PathPoint, Stretch
from diastole.synth.route import Routed
from diastole.synth.targets import ECP5, sg13g2
from diastole.synth.tree import Component
from support.small_product import DESIGN

SMALL = Component(name="small", instances=4, local={"sites": 1, "luts": 1}, parts=())
RAM = Component(name="ram", instances=1, local={"block_rams": 3}, parts=())
QUEUE = Component(name="queue", instances=1, local={"registers": 15}, parts=())
LARGE = Component(name="large", instances=2, local={"sites": 60, "luts": 60}, parts=(RAM,))
TREE = Component(
    name="m", instances=1, local={"sites": 39, "luts": 35, "carry": 2}, parts=(SMALL, LARGE, QUEUE)
)
PLACE = PathPoint(component="core.unit", signal="level[3]")
PATH = LongestPath(
    begin=PLACE,
    end=PathPoint(component="", signal="busy"),
    stretches=(
        Stretch(place=PLACE, cells=3, logic_ns=1.25, routing_ns=2.5),
        Stretch(place=PathPoint(component="", signal=""), cells=1, logic_ns=0.25, routing_ns=1.0),
    ),
)


def test_a_table_of_delays():
    component = ComponentDelay(component="unit", ns=2.25, begin=PLACE, end=PLACE)
    delays = Delays(requested_mhz=400, ns=2.5, path=PATH, components=(component,) * 12)
    lines = synth_lines(replace(found(target=sg13g2()), delays=delays), 0.02)
    at = lines.index(
        "400.0 MHz, cells sized for 400 MHz: by the library's delays, without wires, of clocked "
        "memories nothing"
    )
    assert lines[at + 1].startswith("longest path: 5.00 ns")
    assert lines[-12] == "longest path into each component's registers:"
    assert lines[-1].split() == "unit 2.25 core.unit: level[3] core.unit: level[3]".split()


def found(target=ECP5, tree=TREE, routed=None, **options):
    return Synthesis(
        request=Request(target=target, **options),
        design=DESIGN,
        tree=tree,
        harness={},
        versions={"yosys": "0.70"},
        routed=routed,
        bitstream=None,
    )


def test_what_matters_is_shown():
    names = [(depth, part.name) for depth, part in what_matters(TREE, 0.02, "sites")]
    assert names == [(0, "m"), (1, "large"), (2, "ram")]  # small takes 1 %
    names = [part.name for _, part in what_matters(TREE, 0.01, "sites")]
    assert names == ["m", "large", "ram", "small"]
    assert [part.name for _, part in what_matters(TREE, 0.5, "sites")] == ["m", "large"]


def test_shares():
    assert share({"luts": 1}, {"luts": 4}, "luts") == 0.25
    assert share({}, {"luts": 4}, "luts") == 0
    assert share({"luts": 1}, {}, "luts") == 0


def test_a_table_of_an_fpga():
    lines = synth_lines(found(), 0.02)
    assert lines[0].split() == (
        "component times sites LUTs carry LUT RAM registers DSPs block RAMs share".split()
    )
    assert lines[1].split() == "m 1 100 96 2 0 15 0 3 100.0%".split()
    assert lines[2].split() == "large 2 60 60 0 0 0 0 3 60.0%".split()
    assert lines[2].startswith("  large")
    assert lines[3].startswith("    ram")
    used = "sites 100 of 83,640 (0%), registers 15 of 83,640 (0%), block RAMs 3 of 208 (1%)"
    assert lines[5:] == [
        (
            "Lattice ECP5, yosys 0.70; by component: each component is mapped once; times: "
            "number of copies"
        ),
        "sites: places of a LUT that LUTs, carry chains and LUT RAM take; a block RAM has 18 kbit",
        "25 sites per MAC, 4 MACs",
        "memories read within the cycle, counted: 1 of 15 bits, built of 15 registers, 0 sites",
        "  words x bits: 3 x 5",
        "memories with a clocked read, counted: 1 of 2,048 bits",
        "  words x bits: 256 x 8",
        f"85k: {used}, DSPs 0 of 156 (0%)",
    ]


def test_what_does_not_fit():
    tree = Component(name="m", instances=1, local={"sites": 24_289, "block_rams": 57}, parts=())
    assert synth_lines(found(tree=tree, device="25k"), 0.02)[-1] == (
        "does not fit: too few sites, block RAMs"
    )


def test_a_table_of_a_library():
    queue = Component(name="queue", instances=1, local={"nand2": 64, "registers": 9}, parts=())
    tree = Component(name="m", instances=1, local={"nand2": 1170.6, "registers": 7}, parts=(queue,))
    lines = synth_lines(found(sg13g2(), tree, flat=True), 0.02)
    assert lines[0].split() == "component times NAND2 registers share".split()
    assert lines[1].split() == "m 1 1,235 16 100.0%".split()
    assert lines[4].endswith(
        "; flat: a cell counts for the component of the signal that gives the cell a name"
    )
    assert lines[5:] == [
        "NAND2: area over that of the smallest NAND2, of all but the memories with a clocked read",
        "309 NAND2 per MAC, 4 MACs",
        "memories read within the cycle, counted: 1 of 15 bits, built of 9 registers",
        "  words x bits: 3 x 5",
        "memories with a clocked read, not counted: 1 of 2,048 bits",
        "  words x bits: 256 x 8",
    ]


def test_latches_are_told_where_there_are_some():
    queue = Component(name="queue", instances=1, local={"nand2": 64, "latches": 15}, parts=())
    tree = Component(name="m", instances=1, local={"nand2": 100}, parts=(queue,))
    lines = synth_lines(found(sg13g2(), tree), 0.02)
    assert lines[0].split() == "component times NAND2 registers latches share".split()
    assert lines[2].split() == "queue 1 64 0 15 39.0%".split()
    said = "memories read within the cycle, counted: 1 of 15 bits, built of 15 latches, 64 NAND2"
    assert said in lines


def test_shapes_are_whole_on_their_lines():
    port = {"kind": "write"}, {"kind": "read", "latency_cycles": 0}
    entries = [
        {"module": f"m{depth}", "depth": depth, "width": 100, "instances": 2, "ports": port}
        for depth in range(2, 20)
    ]
    design = replace(DESIGN, within_cycle=Memories.of(entries))
    lines = synth_lines(replace(found(), design=design), 0.02)
    begin = next(n for n, line in enumerate(lines) if line.startswith("  words x bits: "))
    said = lines[begin : lines.index("memories with a clocked read, counted: 1 of 2,048 bits")]
    assert max(map(len, said)) <= 100
    assert len(said) == 3
    shapes = " ".join(said).split("bits: ")[1].split(",")
    assert [each.strip() for each in shapes] == [f"2 of {n} x 100" for n in range(19, 1, -1)]
    assert all(line.endswith(("100", "100,")) for line in said)


def test_a_longest_path():
    lines = path_lines(PATH)
    assert lines[0] == (
        "longest path: 5.00 ns, 1.50 in cells, from core.unit: level[3] to top: busy"
    )
    assert [line.split() for line in lines[2:]] == [
        ["core.unit", "level[3]", "3", "1.25", "2.50"],
        ["top", "-", "1", "0.25", "1.00"],
    ]


def test_what_place_and_route_found():
    routed = Routed(
        fmax_mhz=81.234, requested_mhz=85, path=PATH, utilisation={"COMB": (1234, 9999)}, seed=3
    )
    lines = synth_lines(found(routed=routed, route=True, seed=2, times=2), 0.02)
    at = lines.index("placed and routed with seed 3: COMB 1,234")
    assert lines[at + 2] == "81.23 MHz, asked for 85 MHz"
    assert lines[at + 3] == path_lines(PATH)[0]
    several = replace(routed, clocks={2: 70.5, 3: 81.234})
    lines = synth_lines(found(routed=several, route=True, seed=2, times=2), 0.02)
    assert lines[at + 2] == "81.23 MHz, asked for 85 MHz; other seeds 70.50"


def test_clocked_memories_without_macros_come_on_top():
    """Of 8 words, and of 1024 bits in 32 words; not those of 16 words and 2048 bits."""
    ports = [
        {"kind": kind, "latency_cycles": latency} for kind, latency in (("read", 1), ("write", 0))
    ]
    entries = [
        {"module": f"m{words}", "depth": words, "width": width, "instances": count, "ports": ports}
        for words, width, count in ((8, 512, 1), (32, 32, 2), (16, 128, 4))
    ]
    design = replace(DESIGN, clocked=Memories.of(entries))
    said = " ".join(synth_lines(replace(found(sg13g2(), TREE), design=design), 0.02))
    assert "not counted: 7 of 14,336 bits" in said
    assert "of these 3 of 6,144 bits: fewer than 16 words or 2,048 bits each, logic in" in said
    whole = replace(design, clocked=Memories.of(entries[2:]))
    assert "of these" not in " ".join(synth_lines(replace(found(sg13g2()), design=whole), 0.02))
    of_an_fpga = " ".join(synth_lines(replace(found(), design=design), 0.02))
    assert "of these" not in of_an_fpga
