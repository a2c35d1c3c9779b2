"""Products and chains as commands: what is allowed where, and what each reads and writes."""

import itertools
from dataclasses import replace

import pytest

from diastole_sim.lowering.schedule import PRODUCT
from diastole_sim.program.chains.activations import relu
from diastole_sim.program.chains.inputs import copied, input_floats
from diastole_sim.program.memory_plan import BoundStream, MemoryPlan, stream_of
from diastole_sim.program.writer import THRESHOLDS, ChainCall, ProductOf, Writer
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import INPUTS
from diastole_sim.spec.nest import NestLimits
from diastole_sim.spec.patches import PatchLimits
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.numerics import make_numerics
from support.small_programs import make_limits

M, N, K = 24, 20, 13


def nests(t_blocks, groups):
    return NestLimits(
        t_blocks=(t_blocks,),
        groups=(groups,),
        chunk=(4,),
        chunk_side=1,
        lane_side=1,
        stream_blocks=64,
        stationary_blocks=64,
        pass_blocks=1,
    )


class Bench:
    def __init__(self, limits=None, **numerics):
        self.numerics = make_numerics(**numerics)
        self.limits = make_limits(self.numerics, **limits or {})
        self.plan = MemoryPlan(numerics=self.numerics, data_width=64, panel_vectors=1024)
        self.writer = Writer(self.plan, self.limits)
        shapes = {"x": (M, K), "w": (K, N), "dy": (M, N)}
        self.images = {
            name: self.plan.image(name, name, shape, tag=number, slot=number)
            for number, (name, shape) in enumerate(shapes.items())
        }
        self.output = self.plan.image("a", "x", (M, N), tag=4, slot=4)

    def product(self, operation="forward"):
        names = {"forward": "x w", "dx": "w dy", "dw": "x dy"}[operation].split()
        operands = {name: self.images[name] for name in names}
        return ProductOf(operation=operation, m=M, n=N, k=K, operands=operands)

    def forward(self):
        """Through bias and ReLU into an image."""
        kept = stream_of(self.plan.tensor("kept", Kind.MASK, M, N))
        use = ChainCall(
            chain=relu().forward_chain(),
            shape=(M, N),
            inputs={"input": PRODUCT},
            outputs={"value": self.output, "kept": kept},
        )
        self.writer.chain(use, self.product())
        return self.writer.commands.commands()


@pytest.mark.parametrize("operation", ["forward", "dx", "dw"])
@pytest.mark.parametrize("groupings", [None, "1x8"])
def test_products_name_the_copies_that_they_read(operation, groupings):
    bench = Bench(formats="bfp4", groupings=groupings)
    product = bench.product(operation)
    assert product.shape == {"forward": (M, N), "dx": (M, K), "dw": (K, N)}[operation]
    result = stream_of(bench.plan.tensor("result", Kind.F32, *product.shape))
    bench.writer.product(product, result)
    (command,) = bench.writer.commands.commands()
    copies = {"forward": {"x": 0, "w": 1}, "dx": {"w": 0, "dy": 0}, "dw": {"x": 1, "dy": 1}}
    for name, copy in copies[operation].items():
        expected = bench.images[name].addresses[copy]
        assert getattr(command, f"address_{name}") == expected
    assert (command.m, command.n, command.k) == (M, N, K)
    assert command.out_a == result.descriptor.address


@pytest.mark.parametrize(
    "limits, numerics, allowed",
    [
        ({}, {}, True),  # the machine's own tile holds all
        ({"nests": nests(3, 5)}, {}, True),  # whole rows of five blocks
        ({"nests": nests(3, 4)}, {}, False),  # no whole rows
        ({"nests": nests(3, 8)}, {"groupings": "1x8"}, True),  # two copies
        ({}, {"formats": "fp8_e4m3", "groupings": "tensor"}, False),  # measured
        ({}, {"formats": "fp8_e4m3", "groupings": "tensor", "source": "delayed"}, True),
    ],
)
def test_images_at_the_drain(limits, numerics, allowed):
    bench = Bench(limits, **numerics)
    commands = bench.forward()
    assert commands[0].opcode == Opcode.FORWARD_CHAIN
    written = bench.writer.tables.descriptors()[commands[0].streams + 4]
    if allowed:
        assert len(commands) == 1
        assert written == bench.output.descriptor()
        return
    _, convert = commands
    area = bench.plan.areas["a, floats"]
    assert (written.kind, written.address) == (Kind.F32, area.address)
    assert convert.opcode == Opcode.CONVERT
    assert (convert.m, convert.n, convert.tag, convert.ahead) == (M, N, 4, 0)
    assert convert.address_x == area.address
    assert convert.address_w == bench.output.addresses[0]


def test_a_chain_over_memory_makes_images_whatever_tiles_are():
    bench = Bench({"nests": nests(3, 4)})
    source = stream_of(bench.plan.tensor("source", Kind.F32, M, N))
    use = ChainCall(
        chain=input_floats(),
        shape=(M, N),
        inputs={"values": source},
        outputs={"x": bench.output},
        skip=True,
        update=True,
    )
    bench.writer.chain(use)
    (command,) = bench.writer.commands.commands()
    assert (command.opcode, command.skip, command.update) == (Opcode.CHAIN, 1, 1)


@pytest.mark.parametrize(
    "tiles, numerics, nest",
    [
        ((1, 4), {}, (2, 0)),
        ((1, 2), {}, (2, 0)),  # two tiles of the converter side by side
        ((4, 4), {"groupings": "1x8"}, (4, 4)),  # as high as those of the converter
        ((4, 2), {"groupings": "1x8"}, (4, 2)),  # and as wide
        ((1, 3), {}, None),
        ((4, 3), {}, None),
        ((16, 4), {}, (0, 4)),  # all rows
    ],
)
def test_images_in_patches(tiles, numerics, nest):
    """Of a result of 6 x 5 blocks, whose tiles are 4 wide."""
    lengths = replace(nests(1, 4), t_blocks=(1, 2, 4, 8), groups=(1, 2, 4))
    bench = Bench({"nests": lengths}, **numerics)
    patches = PatchLimits(tiles=(tiles,) * 3, kept_rows=8)
    vector = replace(bench.limits.vector, patches=patches, fed=(4, 4, 4))
    bench.writer.limits = replace(bench.limits, vector=vector)
    command, *rest = bench.forward()
    written = bench.writer.tables.descriptors()[command.streams + 4]
    if nest is None:
        assert written.kind == Kind.F32
        assert (command.nest_t, command.nest_groups) == (2, 0)
        assert [each.opcode for each in rest] == [Opcode.CONVERT]
        return
    assert not rest
    assert written == bench.output.descriptor()
    assert (command.nest_t, command.nest_groups) == nest


@pytest.mark.parametrize("groups, whole", [(4, False), (5, True)])
def test_whole_rows(groups, whole):
    bench = Bench({"nests": nests(3, groups)})
    assert bench.writer.whole_rows(bench.product()) == whole


def test_planes():
    bench = Bench(formats="fast", widths=(2, 4))
    bench.writer.convert(BoundStream(name="s", descriptor=PRODUCT.descriptor), bench.images["x"])
    bench.forward()
    convert, chain = bench.writer.commands.commands()
    assert convert.width == 1
    assert (chain.width_x, chain.width_w) == (1, 1)


def by_slot(tensor_class, name, bench, *, slot):
    """An image that has the width that a slot says, and decides."""
    return bench.plan.image(name, tensor_class, (M, N), tag=slot, slot=slot, decides=True)


def test_widths_of_slots():
    bench = Bench(formats="fast", widths=(2, 4, 8))
    bench.plan.by_slot = ("x", "dy")
    x = by_slot("x", "first x", bench, slot=7)
    assert (x.slot, x.by_slot, x.decides) == (7, True, True)
    writer, source = bench.writer, stream_of(bench.plan.tensor("source", Kind.F32, M, N))
    writer.convert(source, x)
    w = bench.images["w"]
    product = ProductOf(operation="forward", m=M, n=N, k=N, operands={"x": x, "w": w})
    result = stream_of(bench.plan.tensor("result", Kind.F32, M, N))
    writer.product(product, result)
    convert, multiply = writer.commands.commands()
    assert (convert.slot, convert.by_slot, convert.decides, convert.width) == (8, 1, 1, 0)
    assert (multiply.slot_x, multiply.slot_w, multiply.slot_dy) == (8, 0, 0)
    assert (multiply.width_x, multiply.width_w) == (0, 3)
    assert x.descriptor().aux == 8
    assert (x.descriptor().by_slot, x.descriptor().decides) == (1, 1)


def test_what_slots_say_is_waited_for():
    """A product waits for the conversion of another tensor that has its operand's slot, and what
    decides for its threshold."""
    bench = Bench(formats="fast", widths=(2, 4))
    bench.plan.by_slot = ("x",)
    first, second = (by_slot("x", name, bench, slot=7) for name in ("first x", "second x"))
    writer, source = bench.writer, stream_of(bench.plan.tensor("source", Kind.F32, M, N))
    result = stream_of(bench.plan.tensor("result", Kind.F32, M, N))
    operands = {"x": first, "w": bench.images["w"]}
    writer.commands.add(Command.next(0), writes=[THRESHOLDS])
    writer.convert(source, second)
    product = ProductOf(operation="forward", m=M, n=N, k=N, operands=operands)
    writer.product(product, result)
    writer.commands.add(Command.next(0), writes=[THRESHOLDS])
    chain = ChainCall(
        chain=input_floats(), shape=(M, N), inputs={"values": source}, outputs={"x": first}
    )
    writer.chain(chain)
    writer.commands.add(Command.next(0), writes=["nothing else"])
    _, convert, multiply, _, image, other = writer.commands.commands()
    assert (convert.ahead, multiply.ahead, image.ahead, other.ahead) == (0, 0, 0, 1)


def test_tables_become_areas_and_loads():
    bench = Bench()
    body = bench.writer.segment(lambda: bench.forward())
    assert len(body) == 1
    assert len(bench.writer.commands) == 0
    initial = {}
    loads, same = bench.writer.with_tables(body, initial, "forward")
    assert same is body
    loads = loads.commands()
    assert [each.which for each in loads] == [0, 4]  # it has no constants
    for load, data in zip(loads, initial.values(), strict=True):
        area = bench.plan.areas[list(initial)[list(initial.values()).index(data)]]
        assert load.address_x == area.address
        assert len(data) == area.length == load.count * (8 if load.which == 0 else 16)
    assert list(initial) == ["instructions of forward", "descriptors of forward"]


def test_full_tables_are_loaded_in_parts():
    """More streams than the table has: each part of the commands loads its own."""
    bench = Bench()
    tensors = [stream_of(bench.plan.tensor(f"t{n}", Kind.F32, 4, 4)) for n in range(80)]

    def write():
        for source, target in itertools.pairwise(tensors):
            use = ChainCall(
                chain=copied(), shape=(4, 4), inputs={"x": source}, outputs={"y": target}
            )
            bench.writer.chain(use)

    body, initial = bench.writer.segment(write), {}
    before, whole = bench.writer.with_tables(body, initial, "copies")
    assert len(before) == 0  # no constants
    commands = whole.commands()
    loads = [n for n, each in enumerate(commands) if each.opcode == Opcode.LOAD]
    assert len(commands) - len(loads) == 79
    parts = [each for each in initial if each.startswith("descriptors")]
    assert parts == [f"descriptors of copies, part {n}" for n in range(len(parts))]
    assert len(parts) > 1
    assert list(initial).count("instructions of copies, part 0") == 1
    assert len(loads) == len(parts) + 1
    table = {}
    for number, command in enumerate(commands):
        if command.opcode == Opcode.LOAD and command.which == VectorTable.DESCRIPTORS:
            (name,) = [
                n for n, area in bench.plan.areas.items() if area.address == command.address_x
            ]
            data = initial[name]
            table = {at // 16: data[at : at + 16] for at in range(0, len(data), 16)}
        elif command.opcode == Opcode.CHAIN:
            source = Descriptor.decode(table[command.streams])
            target = Descriptor.decode(table[command.streams + INPUTS])
            place = number - sum(each < number for each in loads)
            assert (source, target) == tuple(t.descriptor for t in tensors[place : place + 2])
