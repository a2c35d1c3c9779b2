# amaranth: UnusedElaboratable=no
"""What a command keeps on chip, against what the host says of it."""

from dataclasses import replace
from functools import cache
from math import ceil

import pytest

from diastole_hw.command.fetch import CommandFetch
from diastole_hw.command.panels import Panels
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import Opcode
from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.nest import KEEP_VALUES, LENGTHS, OUTER, Nest
from diastole_sim.spec.operations import OPERATIONS
from support.bench import design, get, pulse, simulation
from support.command_host import Host, Machine, begin, fields_of
from support.nests import blocks_of, cycles_of
from support.plans import make_numerics, make_plan
from support.sweep import sweep
from support.unit_values import plain

MACHINES = {
    "square": {"rows": 2, "cols": 2},
    "tall": {"rows": 3, "cols": 1},
    "edge": {"rows": 2, "cols": 3, "in_place": False},
    "single": {"rows": 1, "cols": 1},
}
NESTED = ("forward", "dx", "dw")


@cache
def limits_of(machine):
    plan = make_plan(make_numerics(block=2, headroom=8), data_width=32, **MACHINES[machine])
    return Limits.of(plan.numerics, data_width=32, nests=plan.nests)


def drawn(rng, limits, operation):
    """A nest, and sizes with which its panels may be up to twice what there is room for."""
    taken = limits.nests.of(operation)
    lengths = {name: rng.choice([0, *getattr(taken, name)]) for name in LENGTHS}
    nest = Nest(outer=rng.choice(OUTER), keep=rng.choice(KEEP_VALUES), **lengths)
    sizes = [rng.randrange(1, 2 * limits.block * 2 ** rng.randrange(2, 8)) for _ in range(3)]
    return nest, sizes


def is_tight(limits, operation, nest, sizes):
    """Whether what is kept fits to a slab, or misses by one at most."""
    taken = limits.nests.of(operation)
    panels = taken.panels(nest, blocks_of(operation, sizes, limits.block))
    found = zip(
        (nest.keeps_stream, nest.keeps_stationary), panels, taken.slabs(nest),
        (taken.stream_blocks, taken.stationary_blocks), strict=True,
    )  # fmt: skip
    return any(keeps and abs(panel - room) <= slab for keeps, panel, slab, room in found)


def fits(limits, operation, nest, sizes):
    taken = limits.nests.of(operation)
    return taken.problem(nest, blocks_of(operation, sizes, limits.block)) is None


def cases_of(rng, limits, operation, count):
    """Half of them just fit, or just do not."""
    tight, others = [], []
    while len(tight) < count:
        nest, sizes = drawn(rng, limits, operation)
        here = tight if is_tight(limits, operation, nest, sizes) else others
        here.append((nest, sizes))
    return tight + rng.sample(others, min(count, len(others)))


def command_of(operation, nest, sizes):
    names = {"forward": ("x", "w"), "dx": ("w", "dy"), "dw": ("x", "dy")}[operation]
    addresses = {f"address_{name}": 0x1000 for name in names} | {"out_a": 0x2000}
    m, n, k = sizes
    opcode = Opcode[operation.upper()]
    return Command.product(opcode, m=m, n=n, k=k, nest=nest, **addresses)


async def counted(ctx, dut):
    """Cycles from ``start`` to ``done``, and whether it fits."""
    await pulse(ctx, dut.start)
    cycles = 1
    while not ctx.get(dut.done):
        await ctx.tick()
        cycles += 1
    fits = ctx.get(dut.fits)
    for _ in range(40):  # it stays
        await ctx.tick()
        assert (ctx.get(dut.done), ctx.get(dut.fits)) == (1, fits)
    return cycles, fits


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.sampled(2)
async def test_what_is_kept_fits_or_not(machine, rng):
    limits = limits_of(machine)
    dut = design(Panels, limits)
    verdicts = {True: 0, False: 0}
    ctx = await simulation(dut, limit=60_000)
    for operation in NESTED:
        for nest, sizes in cases_of(rng, limits, operation, 25):
            command = command_of(operation, nest, sizes)
            ctx.set(dut.command, fields_of(command, dut.command))
            cycles, found = await counted(ctx, dut)
            want = fits(limits, operation, nest, sizes)
            assert found == want or nest.keep == "none", f"{operation} {nest} {sizes}"
            verdicts[want] += 1
            if nest.keep != "none" and want:
                assert cycles == cycles_of(limits, operation, nest, sizes)
    assert min(verdicts.values()) >= 20


def test_the_host_says_the_same_of_every_operation():
    """So that none that takes a nest is left out above."""
    nests = limits_of("square").nests
    assert tuple(name for name in OPERATIONS if nests.of(name) is not None) == NESTED


@pytest.mark.parametrize("bad", [0, 2])
@pytest.mark.parametrize("operation", NESTED)
async def test_a_command_that_keeps_too_much_stops_the_machine(operation, bad, rng):
    """It is not offered, and neither are those behind it; those before it are, as they keep what
    just fits."""
    limits = limits_of("square")
    dut = design(CommandFetch, limits)
    good, refused = [], []
    while len(good) < 2 or not refused:
        for nest, sizes in cases_of(rng, limits, operation, 20):
            longest = limits.block << limits.headroom
            if max(sizes) > longest or not is_tight(limits, operation, nest, sizes):
                continue
            command = command_of(operation, nest, sizes)
            (good if fits(limits, operation, nest, sizes) else refused).append(command)
    commands = [*good[:bad], refused[0], good[0]]

    ctx = await simulation(dut, background=[Host(dut, commands).serve])
    await begin(ctx, dut, count=len(commands))
    for command in commands[:bad]:
        assert plain(await get(ctx, dut.command)) == fields_of(command, dut.command.p)
        await pulse(ctx, dut.done)
    ctx.set(dut.command.ready, 1)
    for _ in range(1000):
        watched = (dut.command.valid, dut.error_code, dut.read.requests.valid)
        _, _, offered, code, asks = await ctx.tick().sample(*watched)
        assert not offered
        if code:
            break
    assert (code, ctx.get(dut.error_index)) == (ErrorCode.NEST, bad)
    assert not asks
    for _ in range(30):
        _, _, *high = await ctx.tick().sample(
            dut.command.valid, dut.read.requests.valid, dut.busy, dut.finished
        )
        assert not any(high)


@pytest.mark.parametrize("keep", KEEP_VALUES)
async def test_cycles_until_a_command_is_offered(keep, rng):
    """2 from its last beat where nothing is kept; else as many more as counting takes, and 1."""
    limits = limits_of("square")
    dut = design(CommandFetch, limits)
    taken = limits.nests.forward
    nest = Nest(t_blocks=1, groups=taken.groups[0], chunk=taken.chunk[0], keep=keep)
    command = command_of("forward", nest, (5, 25, limits.block * taken.chunk[0] * 6 - 1))
    assert fits(limits, "forward", nest, (command.m, command.n, command.k))
    counting = 0
    if keep != "none":
        counting = cycles_of(limits, "forward", nest, (command.m, command.n, command.k)) + 1
    machine = Machine(dut, [command], rng)
    ctx = await machine.simulation()
    await begin(ctx, dut)
    await machine.ended(ctx)
    await machine.end()
    assert machine.offered == [machine.fetched[0] + 3 + counting]


async def test_a_machine_with_less_room_takes_less():
    """The same command on memories that are a block too small for it."""
    limits = limits_of("square")
    sizes = (limits.block * 40, limits.block * 30, limits.block * 16)
    nest = Nest(t_blocks=1, groups=1, chunk=limits.nests.dw.chunk[0], keep="both")
    nest = replace(nest, t_blocks=limits.nests.dw.t_blocks[0], groups=limits.nests.dw.groups[0])
    panels = limits.nests.dw.panels(nest, blocks_of("dw", sizes, limits.block))
    for short in ((0, 0), (1, 0), (0, 1)):
        rooms = [panel - less for panel, less in zip(panels, short, strict=True)]
        nests = {
            name: replace(limits.nests.of(name), stream_blocks=rooms[0], stationary_blocks=rooms[1])
            for name in NESTED
        }
        dut = Panels(replace(limits, nests=type(limits.nests)(**nests)))
        ctx = await simulation(dut)
        ctx.set(dut.command, fields_of(command_of("dw", nest, sizes), dut.command))
        _, fits = await counted(ctx, dut)
        assert fits == (short == (0, 0))


# Tensors in planes: each takes a slab of its own.


@pytest.mark.parametrize("rows, cols, by_slot", [sweep(1, 1, False), (2, 3, False), (1, 1, True)])
@pytest.mark.parametrize("count", [120, sweep(240)])
async def test_planes_take_as_many_slabs(count, rows, cols, by_slot, rng):
    """What is kept just fits or just does not, of operands in any number of planes; of those that a
    slot says, in two."""
    numerics = make_numerics(block=2, headroom=8, formats="fast", widths=(2, 4, 6, 8), fraction=30)
    plan = make_plan(numerics, data_width=32, rows=rows, cols=cols)
    vector = VectorLimits(panel_vectors=64) if by_slot else None
    limits = Limits.of(plan.numerics, data_width=32, nests=plan.nests, vector=vector)
    dut = design(Panels, limits)
    seen = set()
    ctx = await simulation(dut, limit=60_000)
    for number in range(count):
        operation = NESTED[number % 3]
        nest, sizes = drawn(rng, limits, operation)
        (made,) = OPERATIONS[operation].products
        streamed, held = (each.tensor_class for each in made.factors)
        planes = {name: rng.randrange(1, 5) for name in (streamed, held)}
        command = command_of(operation, nest, sizes)
        widths = {f"width_{name}": count - 1 for name, count in planes.items()}
        slots = {f"slot_{name}": rng.choice([0, 1, 255]) for name in planes if by_slot}
        command = replace(command, **widths, **slots)
        planes |= {name: 2 for name in planes if slots.get(f"slot_{name}")}
        ctx.set(dut.command, fields_of(command, dut.command))
        cycles, found = await counted(ctx, dut)
        # A slab for each plane of each chunk, of every tile of the loop inside.
        taken = limits.nests.of(operation)
        own = taken.with_defaults(nest)
        t_blocks, lanes, contraction = blocks_of(operation, sizes, limits.block)
        chunks = ceil(contraction / own.chunk)
        slices = own.chunk // taken.chunk_side
        stream = chunks * slices * own.t_blocks * planes[streamed]
        kept = chunks * slices * own.groups * taken.pass_blocks * planes[held]
        if nest.outer == "l":
            stream *= ceil(t_blocks / own.t_blocks)
        else:
            kept *= ceil(lanes / (own.groups * taken.lane_side))
        want = not (nest.keeps_stream and stream > taken.stream_blocks)
        want = want and not (nest.keeps_stationary and kept > taken.stationary_blocks)
        assert found == want or nest.keep == "none", f"{operation} {nest} {sizes} {planes}"
        if want and nest.keep != "none":
            counts = planes[streamed], planes[held]
            assert cycles == cycles_of(limits, operation, nest, sizes, counts)
        seen.add((nest.keep, want))
    assert {("both", True), ("both", False), ("stream", False), ("stationary", False)} <= seen
