"""Set-up of a chain: the verdict of the contract's rules, and what its streams become."""

from dataclasses import replace
from functools import partial

import pytest

from diastole_hw.vector.core.chain_setup import ChainSetup
from diastole_hw.vector.stream_layouts import VectorShape
from diastole_sim.spec.micro import Instruction, MicroOp, When, program_problems
from diastole_sim.spec.stream_table import (
    GATHERED,
    INPUT_KINDS,
    ONCE_A_BLOCK,
    OUTPUT_KINDS,
    SLOTS,
    STREAMS,
    Descriptor,
    Kind,
    StreamLimits,
    Walk,
    stream_problems,
)
from support.bench import design, run
from support.sweep import sweep

SIZES = {"data_width": 128, "panel_vectors": 64}


def shape_of(block: int) -> VectorShape:
    return VectorShape(block=block, specials=1, **SIZES)


def random_instruction(rng, block: int) -> Instruction:
    """Mostly in order."""
    op = rng.choice(list(MicroOp))
    turns = block.bit_length() - 1
    it = Instruction(op=op)
    uses = it.operands
    special = it.special
    sources = {x: rng.randrange(16 if special or rng.random() < 0.5 else 26) for x in uses}
    flags = {}
    if "c" in uses:
        flags = {"fresh": rng.randrange(2), "keep": rng.randrange(2)}
        flags["turn_lanes"] = rng.randrange(turns + 1)
        if sources["c"] < 16:
            flags["turn_rows"] = rng.randrange(turns + 1)
    it = replace(it, **sources, **flags, when=rng.choice(list(When)))
    if op != MicroOp.NOP:
        it = replace(it, d=rng.randrange(16) if special else rng.choice([3, 15, 31]))
        if not special and rng.random() < 0.3:
            it = replace(it, o=rng.randrange(4))
    if 20 in sources.values():
        it = replace(it, k=rng.randrange(256))
    return it


def spoilt(rng, it: Instruction) -> Instruction:
    """With a random bit the other way."""
    return Instruction.decode(it.encode() ^ 1 << rng.randrange(64))


def random_descriptor(rng, *, output: bool, decides: bool = False) -> Descriptor:
    """Mostly in order."""
    kind = rng.choice(OUTPUT_KINDS if output else INPUT_KINDS)
    address = 16 * rng.randrange(1 << 20)
    it = Descriptor(kind=kind, watch=int(output and rng.random() < 0.5))
    if kind == Kind.PANEL:
        it = replace(it, address=rng.randrange(40), aux=rng.randrange(3 if output else 4))
        return replace(it, pitch=rng.randrange(5)) if it.aux == 0 else it
    if kind == Kind.CONSTANT:
        return replace(it, address=rng.randrange(256))
    if kind == Kind.IMAGE:
        tag = rng.getrandbits(32)
        it = replace(it, address=address, tensor_class=rng.randrange(3), pitch=tag, offset=64)
        if decides and rng.random() < 0.8:
            flags = {"by_slot": rng.randrange(2), "decides": rng.randrange(2)}
            it = replace(it, tensor_class=2, aux=rng.choice([0, 1, 2, 255]), **flags)
        return it
    if kind == Kind.PRODUCT:
        return it
    it = replace(it, address=address)
    if rng.random() < 0.3:
        it = replace(it, per_step=1, offset=16 * rng.randrange(100))
    if kind in (*ONCE_A_BLOCK, *GATHERED):
        it = replace(it, pitch=16 * rng.randrange(1 << 12))
    return replace(it, aux=rng.randrange(SLOTS)) if kind in GATHERED else it


def expected(program, table, chain, block, step, choices):
    """(bad_stream, bad_program, used, addresses, lists) as the contract has it."""
    walk = Walk(
        rows=chain["rows"],
        cols=chain["cols"],
        block=block,
        by_columns=bool(chain["by_columns"]),
    )
    own = table[chain["streams"] : chain["streams"] + STREAMS]
    used = [False] * STREAMS
    for it in program:
        for source in it.sources.values():
            if 16 <= source < 20:
                used[source - 16] = True
        if it.output is not None:
            used[4 + it.output] = True
    bad = False
    for number, stream in enumerate(own):
        if used[number]:
            bad |= bool(
                stream_problems(
                    stream,
                    walk,
                    StreamLimits(**SIZES, choices=choices),
                    output=number >= 4,
                    of_product=bool(chain["of_product"]),
                    index_list=table[stream.aux] if stream.aux < SLOTS else None,
                )
            )
    problems = program_problems(
        program,
        block=block,
        panels=[n for n in range(4) if own[n].kind == Kind.PANEL],
        always_written=[n for n in range(4) if own[4 + n].kind in ONCE_A_BLOCK and used[4 + n]],
    )
    addresses = [stream.at_step(step) % 2**40 for stream in own]
    lists = [
        table[stream.aux].at_step(step) % 2**40 if stream.aux < SLOTS else 0 for stream in own[:4]
    ]
    return bad, bool(problems), used, addresses, lists


async def memory(ctx, dut, name, words):
    """A word one cycle later, which is held."""
    held = 0
    port = tuple(getattr(dut, f"{name}_{end}") for end in ("en", "at"))
    async for _, _, en, at in ctx.tick().sample(*port):
        if en:
            held = words[at]
        ctx.set(getattr(dut, name).as_value(), held)


def set_up(block, cases, *, decides=False):
    """Run every case; returns nothing, asserts all. ``decides``: widths of class dy."""
    choices = (False, False, decides)
    copied = ("kind", "tensor_class", "watch", "aux", "pitch", "offset")
    copied += ("by_slot", "decides") * decides
    dut = design(ChainSetup, replace(shape_of(block), choices=choices))
    programs, tables = [0] * 256, [0] * SLOTS

    async def bench(ctx):
        for program, table, chain, step in cases:
            for n, it in enumerate(program):
                programs[(chain["first"] + n) % 256] = it.encode()
            tables[:] = [int.from_bytes(each.encode(), "little") for each in table]
            ctx.set(dut.chain, chain)
            ctx.set(dut.step, step)
            ctx.set(dut.start, 1)
            await ctx.tick()
            ctx.set(dut.start, 0)
            while not (await ctx.tick().sample(dut.done))[2]:
                pass
            case = program, table, chain, block, step
            bad, wrong, used, addresses, lists = expected(*case, choices)
            about = f"{chain} {program} {table[chain['streams'] :][:8]}"
            assert ctx.get(dut.bad_stream) == bad, about
            assert ctx.get(dut.bad_program) == wrong, about
            for n in range(STREAMS):
                assert ctx.get(dut.streams[n].used) == used[n], about
                if used[n] and not bad:
                    stream = table[chain["streams"] + n]
                    for name in copied:
                        assert ctx.get(getattr(dut.streams[n], name)) == getattr(stream, name)
                    assert ctx.get(dut.streams[n].address) == addresses[n], about
                    if stream.kind in GATHERED:
                        assert ctx.get(dut.lists[n]) == lists[n], about

    background = [
        partial(memory, dut=dut, name=name, words=words)
        for name, words in (("instruction", programs), ("slot", tables))
    ]
    run(dut, bench, background=background, limit=400_000)


def a_case(rng, block, spoil, *, decides=False):
    length = rng.choice([1, 2, 5, 31, 32])
    program = [random_instruction(rng, block) for _ in range(length)]
    own = [random_descriptor(rng, output=n >= 4, decides=decides) for n in range(STREAMS)]
    if spoil == "program":
        at = rng.randrange(length)
        program[at] = spoilt(rng, program[at])
    if spoil == "stream":
        at = rng.randrange(STREAMS)
        bits = int.from_bytes(own[at].encode(), "little") ^ 1 << rng.randrange(128)
        own[at] = Descriptor.decode(bits.to_bytes(16, "little"))
    first_slot = rng.randrange(SLOTS - STREAMS + 1)
    lists = [
        Descriptor(kind=Kind.LABELS, address=16 * rng.randrange(64), per_step=1, offset=32)
        if rng.random() < 0.9
        else random_descriptor(rng, output=False)
        for _ in range(SLOTS)
    ]
    table = [*lists[:first_slot], *own, *lists[first_slot + STREAMS :]]
    chain = {
        "first": rng.randrange(256 - length + 1),
        "length": length,
        "streams": first_slot,
        "rows": rng.choice([1, 3, 17, 2**24 - 1]) if rng.random() < 0.3 else rng.randrange(1, 40),
        "cols": rng.randrange(1, 40),
        "by_columns": int(rng.random() < 0.2),
        "of_product": int(rng.random() < 0.6),
    }
    return program, table, chain, rng.choice([0, 1, 5, 1000, 2**32 - 1])


@pytest.mark.parametrize("spoil", ["nothing", "program", "stream"])
@pytest.mark.parametrize("block", [1, 2, 4, 8, 16])
@pytest.mark.sampled(4)
def test_verdict_and_streams(block, spoil, rng):
    set_up(block, [a_case(rng, block, spoil) for _ in range(60)])


@pytest.mark.parametrize("count", [60, sweep(150)])
def test_streams_of_a_machine_that_decides_widths(count, rng):
    kinds = ["nothing", "stream"]
    cases = [a_case(rng, 4, rng.choice(kinds), decides=True) for _ in range(count)]
    set_up(4, cases, decides=True)


def alone(it: Instruction, stream: Descriptor, number: int):
    """A program of one instruction, of which one stream is looked at."""
    table = [Descriptor() for _ in range(SLOTS)]
    table[number] = stream
    chain = {"first": 0, "length": 1, "streams": 0, "rows": 9, "cols": 20}
    return [it], table, chain | {"by_columns": 0, "of_product": 0}, 3


READ = Instruction(op=MicroOp.MOV, a=16, d=0)
WRITE = Instruction(op=MicroOp.MOV, a=0, o=0)


@pytest.mark.parametrize("bit", range(128))
@pytest.mark.sampled(10)
def test_every_bit_of_descriptors(bit, rng):
    """What each bit alone makes of streams of every kind that are in order but for it."""
    cases = []
    for number, it, kinds in ((0, READ, INPUT_KINDS), (4, WRITE, OUTPUT_KINDS)):
        for kind in kinds:
            good = Descriptor(kind=kind).encode()
            bits = int.from_bytes(good, "little") ^ 1 << bit
            cases.append(alone(it, Descriptor.decode(bits.to_bytes(16, "little")), number))
    set_up(8, cases)


@pytest.mark.parametrize("block", [8, 2])
@pytest.mark.parametrize("first", range(4))
@pytest.mark.sampled(4)
def test_every_bit_of_instructions(first, block, rng):
    """Every fourth."""
    cases = []
    for op in MicroOp:
        good = Instruction(op=op)
        if op != MicroOp.NOP:
            good = replace(good, d=2)
        for bit in range(first, 64, 4):
            program = [Instruction.decode(good.encode() ^ 1 << bit)]
            cases.append((program, *alone(READ, Descriptor(), 0)[1:]))
    set_up(block, cases)


@pytest.mark.parametrize("aux", range(4))
def test_the_last_vector_of_the_panel(aux, rng):
    # 2 x 3 blocks of 8: the longest that fit, and those one longer.
    cases = []
    for pitch in (0, 1, 3, 5, 63, 64, 2**31) if aux == 0 else (0,):
        for address in (*range(0, 64, 7), 64, 65, 2**39):
            cases.append(
                alone(READ, Descriptor(kind=Kind.PANEL, aux=aux, pitch=pitch, address=address), 0)
            )
    set_up(8, cases)


def test_a_panel_of_so_many_rows_that_numbers_wrap(rng):
    stream = Descriptor(kind=Kind.PANEL, pitch=2**19)
    program, table, chain, step = alone(READ, stream, 0)
    set_up(8, [(program, table, chain | {"rows": 2**21 + 1, "cols": 1}, step)])


@pytest.mark.parametrize("a", range(4))
@pytest.mark.parametrize("c", range(4))
@pytest.mark.sampled(2)
def test_two_streams_of_the_panel(a, c, rng):
    program = [Instruction(op=MicroOp.ADD, a=16 + a, c=16 + c, d=0)]
    table = [Descriptor(kind=kind) for kind in (Kind.PANEL, Kind.PANEL, Kind.F32, Kind.PANEL)]
    table += [Descriptor()] * (SLOTS - 4)
    chain = alone(READ, Descriptor(), 0)[2] | {"rows": 5, "cols": 8}
    set_up(8, [(program, table, chain, 0)])
