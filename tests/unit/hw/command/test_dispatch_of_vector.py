# amaranth: UnusedElaboratable=no
"""Commands of the vector unit, and products with chains, on engines that the bench plays."""

import pytest

from diastole_hw.command.dispatch import Dispatch
from diastole_hw.plan.modes import Mode
from diastole_sim.spec.command_table import Opcode
from support.bench import design, simulation
from support.plans import make_numerics, make_plan, with_vector

PLAN = with_vector(make_plan(make_numerics(block=4)))
CHAINED = {
    Opcode.FORWARD_CHAIN: (Mode.FORWARD, ("m", "n")),
    Opcode.DX_CHAIN: (Mode.DX, ("m", "k")),
    Opcode.DW_CHAIN: (Mode.DW, ("k", "n")),
}
SIZES = {"m": 13, "n": 9, "k": 5}
NAMES = {"program": 3, "program_length": 7, "streams": 16}


class Engines:
    """Both engines as the test has them; what they were told."""

    def __init__(self, dut):
        self.dut, self.requested, self.multiplied = dut, [], []

    async def watch(self, ctx):
        vector, product = self.dut.vector, self.dut.product
        signals = (
            vector.command.valid, vector.command.ready, vector.command.payload,
            product.start, product.mode, product.operands, product.command,
        )  # fmt: skip
        async for *_, valid, ready, asked, start, mode, operands, number in ctx.tick().sample(
            *signals
        ):
            if valid and ready:
                self.requested.append(asked)
            if start:
                self.multiplied.append((Mode(mode), operands, number))


async def begin(ctx, dut, command, number=0, *, cycles=4):
    """Offer a command, for some cycles at most; whether it was taken."""
    ctx.set(dut.command.payload, command)
    ctx.set(dut.command.valid, 1)
    ctx.set(dut.number, number)
    for _ in range(cycles):
        *_, taken = await ctx.tick().sample(dut.command.ready)
        if taken:
            break
    ctx.set(dut.command.valid, 0)
    for _ in range(3):  # until engines were told
        await ctx.tick()
    return bool(taken)


async def pulse(ctx, signal, dut=None):
    """Whether a command is done in that cycle, where ``dut`` is given."""
    ctx.set(signal, 1)
    done = dut is not None and ctx.get(dut.done)
    await ctx.tick()
    ctx.set(signal, 0)
    return bool(done)


async def ends(ctx, dut, cycles=5):
    """Whether a command is done within some cycles."""
    seen = False
    for _ in range(cycles):
        *_, done = await ctx.tick().sample(dut.done)
        seen |= bool(done)
    return seen


async def machine(plan=PLAN):
    """A dispatcher in a simulation, whose engines take everything at once."""
    dut = design(Dispatch, plan)
    engines = Engines(dut)
    ctx = await simulation(dut, background=[engines.watch])
    ctx.set(dut.answered, 3)
    ctx.set(dut.product.ready, 1)
    ctx.set(dut.vector.command.ready, 1)
    return ctx, dut, engines


@pytest.mark.parametrize("opcode", [Opcode.LOAD, Opcode.STORE])
async def test_transfers(opcode):
    fields = {"which": 3, "first": 77, "count": 2**17, "address_x": 0xAB_CDEF_0120, "advance": 64}
    ctx, dut, engines = await machine()
    assert await begin(ctx, dut, {"opcode": opcode.value} | fields)
    assert not await ends(ctx, dut)
    (asked,) = engines.requested
    assert (asked.transfer, asked.store) == (1, opcode == Opcode.STORE)
    assert asked.address == fields["address_x"]
    for name in ("which", "first", "count", "advance"):
        assert asked[name] == fields[name]
    await pulse(ctx, dut.vector.done)
    assert await ends(ctx, dut)
    assert not engines.multiplied


FAST = with_vector(make_plan(make_numerics(block=4, formats="fast", headroom=8)))


@pytest.mark.parametrize("opcode", [Opcode.FORWARD, Opcode.BACKWARD, Opcode.DW_CHAIN])
async def test_planes_of_operands_are_those_of_their_slots(opcode, rng):
    """Or those of the command, where it names none."""
    ctx, dut, engines = await machine(FAST)
    for number in range(12):
        last = rng.getrandbits(255)
        ctx.set(dut.last, last)
        widths = {name: rng.randrange(2) for name in ("x", "w", "dy")}
        slots = {name: rng.choice([0, 1, 255, rng.randrange(256)]) for name in widths}
        command = {"opcode": opcode.value} | SIZES | NAMES
        command |= {f"width_{name}": width for name, width in widths.items()}
        command |= {f"slot_{name}": slot for name, slot in slots.items()}
        ctx.set(dut.product.fits, 1)
        assert await begin(ctx, dut, command, number % 2)
        _, operands, _ = engines.multiplied[-1]
        expected = [last >> slots[n] - 1 & 1 if slots[n] else widths[n] for n in widths]
        assert list(operands.planes) == expected, (slots, widths)
        ctx.set(dut.product.done_command, number % 2)
        ctx.set(dut.vector.done, opcode == Opcode.DW_CHAIN)
        await pulse(ctx, dut.product.done)
        ctx.set(dut.vector.done, 0)
        await ends(ctx, dut)


@pytest.mark.parametrize("by_slot, decides", [(0, 0), (1, 0), (0, 1), (1, 1)])
async def test_what_a_conversion_is_told_of_its_slot(by_slot, decides):
    ctx, dut, _ = await machine(FAST)
    flags = {"slot": 7, "by_slot": by_slot, "decides": decides}
    ctx.set(dut.command.payload, {"opcode": Opcode.CONVERT.value} | SIZES | flags)
    ctx.set(dut.command.valid, 1)
    await ctx.tick()
    assert ctx.get(dut.convert.command.valid)
    assert ctx.get(dut.convert_slot) == 7
    assert (ctx.get(dut.by_slot), ctx.get(dut.decides)) == (by_slot, decides)


@pytest.mark.parametrize("columns", [0, 1])
async def test_a_chain_over_memory(columns):
    ctx, dut, engines = await machine()
    command = {"opcode": Opcode.CHAIN.value, "m": 13, "n": 9, "columns": columns} | NAMES
    assert await begin(ctx, dut, command)
    assert not await ends(ctx, dut)
    chain = engines.requested[0].chain
    wanted = {"first": 3, "length": 7, "streams": 16, "rows": 13, "cols": 9}
    wanted |= {"by_columns": columns, "of_product": 0}
    assert {name: chain[name] for name in wanted} == wanted
    assert not engines.requested[0].skipped
    await pulse(ctx, dut.vector.done)
    assert await ends(ctx, dut)


@pytest.mark.parametrize("opcode", CHAINED)
@pytest.mark.parametrize("first", ["product", "vector"])
async def test_a_product_with_a_chain_is_done_when_both_are(opcode, first):
    mode, axes = CHAINED[opcode]
    ctx, dut, engines = await machine()
    command = {"opcode": opcode.value, "address_w": 0x100} | SIZES | NAMES
    assert await begin(ctx, dut, command)
    await ctx.tick()
    ((told, operands, number),) = engines.multiplied
    assert (told, operands.chain, operands.w, number) == (mode, 1, 0x100, 0)
    (asked,) = engines.requested
    assert asked.chain.of_product
    assert (asked.chain.rows, asked.chain.cols) == tuple(SIZES[axis] for axis in axes)
    parts = [dut.product.done, dut.vector.done]
    early, late = parts if first == "product" else reversed(parts)
    assert not await pulse(ctx, early, dut)
    assert not await ends(ctx, dut)
    assert await pulse(ctx, late, dut) or await ends(ctx, dut)


async def test_a_product_begins_while_the_chain_before_its_own_runs():
    ctx, dut, engines = await machine()
    command = {"opcode": Opcode.FORWARD_CHAIN.value} | SIZES | NAMES
    assert await begin(ctx, dut, command)
    await ctx.tick()
    ctx.set(dut.vector.command.ready, 0)  # it is at the first chain
    assert await begin(ctx, dut, command | {"ahead": 1}, 1)
    assert len(engines.multiplied) == 2
    assert len(engines.requested) == 1
    await pulse(ctx, dut.product.done)
    await pulse(ctx, dut.vector.done)
    assert await ends(ctx, dut)
    ctx.set(dut.vector.command.ready, 1)
    await ctx.tick()
    await ctx.tick()
    assert len(engines.requested) == 2
    assert ctx.get(dut.vector_number) == 1
    ctx.set(dut.product.done_command, 1)
    await pulse(ctx, dut.product.done)
    assert not await ends(ctx, dut)
    await pulse(ctx, dut.vector.done)
    assert await ends(ctx, dut)


async def test_a_chain_is_done_when_its_image_is():
    """The next one, which says ahead, runs meanwhile, and is done behind it; others wait."""
    ctx, dut, engines = await machine()
    command = {"opcode": Opcode.CHAIN.value, "m": 13, "n": 9} | NAMES
    assert await begin(ctx, dut, command)
    await pulse(ctx, dut.image_requested)
    await pulse(ctx, dut.vector.done)
    assert not await ends(ctx, dut)
    assert not await begin(ctx, dut, command, 1)
    assert await begin(ctx, dut, command | {"ahead": 1}, 1)
    assert len(engines.requested) == 2
    await pulse(ctx, dut.vector.done)
    assert not await ends(ctx, dut)
    await pulse(ctx, dut.image_done)
    dones = [bool((await ctx.tick().sample(dut.done))[-1]) for _ in range(6)]
    assert sum(dones) == 2


async def test_an_update_is_waited_for_when_it_begins():
    """Not while it waits for the chain before it."""
    ctx, dut, _ = await machine()
    waits = dut.events.waits
    command = {"opcode": Opcode.CHAIN.value, "m": 13, "n": 9} | NAMES
    assert await begin(ctx, dut, command)
    ctx.set(dut.vector.command.ready, 0)
    assert await begin(ctx, dut, command | {"ahead": 1, "update": 1}, 1)
    assert (ctx.get(waits.chain), ctx.get(waits.update)) == (1, 0)
    await pulse(ctx, dut.vector.done)
    ctx.set(dut.vector.command.ready, 1)
    await ctx.tick().repeat(2)
    assert (ctx.get(waits.chain), ctx.get(waits.update)) == (0, 1)


async def test_neither_begins_without_the_other():
    ctx, dut, engines = await machine()
    command = {"opcode": Opcode.DW_CHAIN.value} | SIZES | NAMES
    ctx.set(dut.product.ready, 0)
    assert not await begin(ctx, dut, command)
    assert not engines.requested
    ctx.set(dut.product.ready, 1)
    assert await begin(ctx, dut, command)


async def test_no_product_begins_whose_chain_has_no_place():
    ctx, dut, engines = await machine()
    command = {"opcode": Opcode.DW_CHAIN.value} | SIZES | NAMES
    ctx.set(dut.vector.command.ready, 0)
    assert await begin(ctx, dut, command)  # its chain waits to be taken
    assert not await begin(ctx, dut, command | {"ahead": 1}, 1)
    assert len(engines.multiplied) == 1
    ctx.set(dut.vector.command.ready, 1)
    assert await begin(ctx, dut, command | {"ahead": 1}, 1)
    assert len(engines.multiplied) == len(engines.requested) == 2


@pytest.mark.parametrize("step, register", [(0, 7), (5, 0), (2**32 - 1, 3)])
async def test_the_step_of_a_conversion_s_draws(step, register):
    ctx, dut, _ = await machine()
    ctx.set(dut.step, register)
    ctx.set(dut.command.payload, {"opcode": Opcode.CONVERT.value, "step": step, "slot": 9})
    ctx.set(dut.command.valid, 1)
    assert ctx.get(dut.convert.command.valid)
    assert ctx.get(dut.convert.command.p.step) == (step + register) % 2**32
    assert ctx.get(dut.convert_slot) == 9


OVERFLOWS = ("product", "dy_nan", "dy_inf", "watched")


@pytest.mark.parametrize("cause", [*OVERFLOWS, "none"])
async def test_what_is_skipped_in_a_step_that_overflowed(cause):
    ctx, dut, engines = await machine()
    first = {"opcode": Opcode.FORWARD_CHAIN.value} | SIZES | NAMES
    assert await begin(ctx, dut, first)
    if cause == "product":
        await pulse(ctx, dut.product.overflow)
    if cause in ("dy_nan", "dy_inf"):
        ctx.set(dut.converted_class, 2)
        ctx.set(dut.convert.nan if cause == "dy_nan" else dut.convert.inf, 1)
        await pulse(ctx, dut.image_done)
    if cause == "watched":
        await pulse(ctx, dut.vector.overflow)
    await pulse(ctx, dut.product.done)
    await pulse(ctx, dut.vector.done)
    await ends(ctx, dut)
    overflowed = cause != "none"
    assert ctx.get(dut.overflowed) == overflowed
    assert await begin(ctx, dut, first | {"opcode": Opcode.DW_CHAIN.value, "skip": 1}, 1)
    await ctx.tick()
    assert len(engines.multiplied) == 2 - overflowed
    assert engines.requested[-1].skipped == overflowed
    ctx.set(dut.product.done_command, 1)
    if not overflowed:
        await pulse(ctx, dut.product.done)
    await pulse(ctx, dut.vector.done)
    assert await ends(ctx, dut)
    await pulse(ctx, dut.following)
    assert not ctx.get(dut.overflowed)


async def test_an_error_is_that_of_the_command_at_hand():
    ctx, dut, _ = await machine()
    assert await begin(ctx, dut, {"opcode": Opcode.CHAIN.value, "m": 1, "n": 1} | NAMES, 1)
    await ctx.tick()
    await ctx.tick()
    ctx.set(dut.vector.error_code, 17)
    assert (ctx.get(dut.fault), ctx.get(dut.fault_number)) == (17, 1)
