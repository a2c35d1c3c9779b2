# amaranth: UnusedElaboratable=no
"""The register file through its AXI4-Lite port; offsets are written here by hand, once more."""

import inspect
import re

import pytest
from amaranth.hdl import Const, Signal

from diastole_hw.bus.axil_registers import AxilRegisters, special_word
from support.bench import pulse, simulation
from support.unit_bench import Unit

CONTROL, STATUS, ERROR_CODE, COUNT, ADDRESS, FLAGS = 0x0C, 0x10, 0x14, 0x1C, 0x20, 0x50
START, RESET, CLEAR, IRQ = 1, 2, 4, 256
OKAY, SLVERR, DECERR = 0, 2, 3
SETTINGS = {
    "command_count": (0x1C, 32),
    "command_address": (0x20, 40),
    "seed": (0x28, 32),
    "read_base": (0x30, 40),
    "read_limit": (0x38, 40),
    "write_base": (0x40, 40),
    "write_limit": (0x48, 40),
}
STATUSES = {"error_code": (0x14, 8), "error_index": (0x18, 32), "amax": (0x5C, 32)}
COUNTERS = {
    "saturated": (0x54, 32),
    "underflowed": (0x58, 32),
    "cycles": (0x60, 64),
    "convert_cycles": (0x68, 64),
    "read_beats": (0x70, 64),
    "write_beats": (0x78, 64),
    "cycles_total": (0xA0, 64),
    "busy_slots": (0x100, 64),
}
WAITS = ("vector", "store", "load", "update", "chain", "convert", "command")
COUNTERS |= {f"wait_{name}": (0xC8 + 8 * n, 64) for n, name in enumerate(WAITS)}
VECTOR_SETTINGS = {
    "step": (0xB0, 32),
    "step_end": (0xB4, 32),
    "command_first": (0xB8, 32),
    "loss_scale": (0xBC, 32),
    "loss_window": (0xC0, 32),
    "loss_clean": (0xC4, 32),
}
STATES = ("step", "loss_scale", "loss_clean")
WORDS = {at + 4 * n for at, bits in SETTINGS.values() for n in range(1 + (bits > 32))}
COUNTED = {at + 4 * n for at, bits in COUNTERS.values() for n in range(1 + (bits > 32))}
READ_ONLY = COUNTED | {at for at, _ in STATUSES.values()} | {0x00, 0x04, 0x08}


def registers(*, vector=False):
    return AxilRegisters(config_hash=0xC0FFEE11, vector=vector)


async def write(ctx, dut, address, value, strobes=15, order="together", delay=0):
    """One write; gives its response. ``order``: which channel comes first; ``delay`` of bready."""
    axil = dut.axil
    ctx.set(axil.awaddr, address)
    ctx.set(axil.wdata, value)
    ctx.set(axil.wstrb, strobes)
    ctx.set(axil.awvalid, order != "data first")
    ctx.set(axil.wvalid, order != "address first")
    if order != "together":
        for _ in range(3):
            _, _, aw, w = await ctx.tick().sample(axil.awready, axil.wready)
            assert not aw
            assert not w
        ctx.set(axil.awvalid, 1)
        ctx.set(axil.wvalid, 1)
    while True:
        _, _, aw, w = await ctx.tick().sample(axil.awready, axil.wready)
        assert aw == w
        if aw:
            break
    ctx.set(axil.awvalid, 0)
    ctx.set(axil.wvalid, 0)
    responses = set()
    for _ in range(delay):
        _, _, valid, response = await ctx.tick().sample(axil.bvalid, axil.bresp)
        assert valid, "the response did not wait"
        responses.add(response)
    ctx.set(axil.bready, 1)
    _, _, valid, response = await ctx.tick().sample(axil.bvalid, axil.bresp)
    assert valid
    assert responses <= {response}
    ctx.set(axil.bready, 0)
    assert not ctx.get(axil.bvalid)
    return response


async def read(ctx, dut, address, delay=0):
    """One read; gives data and response."""
    axil = dut.axil
    ctx.set(axil.araddr, address)
    ctx.set(axil.arvalid, 1)
    while True:
        _, _, ready = await ctx.tick().sample(axil.arready)
        if ready:
            break
    ctx.set(axil.arvalid, 0)
    ctx.set(axil.araddr, 0)
    answers = set()
    for _ in range(delay):
        _, _, valid, *answer = await ctx.tick().sample(axil.rvalid, axil.rdata, axil.rresp)
        assert valid
        answers.add(tuple(answer))
    ctx.set(axil.rready, 1)
    _, _, valid, *answer = await ctx.tick().sample(axil.rvalid, axil.rdata, axil.rresp)
    assert valid
    assert answers <= {tuple(answer)}
    ctx.set(axil.rready, 0)
    assert not ctx.get(axil.rvalid)
    return tuple(answer)


async def value(ctx, dut, address):
    data, response = await read(ctx, dut, address)
    assert response == OKAY, f"{address:#x}"
    return data


@pytest.mark.parametrize("vector", [False, True], ids=["plain", "vector unit"])
async def test_identification(vector):
    dut = registers(vector=vector)
    ctx = await simulation(dut)
    got = [await value(ctx, dut, address) for address in (0, 4, 8)]
    assert got == [0x53414944, 0x00010000, 0xC0FFEE11]
    assert bytes.fromhex("44494153") == got[0].to_bytes(4, "little") == b"DIAS"


@pytest.mark.parametrize("vector", [False, True], ids=["plain", "vector unit"])
@pytest.mark.parametrize("order", ["together", "data first", "address first"])
@pytest.mark.sampled(2)
async def test_settings_are_written_byte_by_byte(order, vector, rng):
    dut = registers(vector=vector)
    settings = SETTINGS | VECTOR_SETTINGS if vector else SETTINGS
    words = {at + 4 * n for at, bits in settings.values() for n in range(1 + (bits > 32))}
    expected = dict.fromkeys(words, 0)
    width = {at + 4 * n: min(32, bits - 32 * n) for at, bits in SETTINGS.values() for n in (0, 1)}
    width |= {at: 32 for at, _ in VECTOR_SETTINGS.values()}
    ctx = await simulation(dut, limit=60_000)
    for _ in range(40):
        address, strobes, new = (rng.choice(sorted(words)), rng.randrange(16), rng.getrandbits(32))
        delay = rng.randrange(3)
        response = await write(ctx, dut, address | rng.randrange(4), new, strobes, order, delay)
        assert response == OKAY
        for k in range(4):
            if strobes >> k & 1:
                byte = 0xFF << 8 * k
                expected[address] = expected[address] & ~byte | new & byte
        expected[address] &= (1 << width[address]) - 1
        for word in expected:
            assert await read(ctx, dut, word, rng.randrange(2)) == (expected[word], OKAY)
        for name, (at, bits) in settings.items():
            whole = expected[at] | (expected[at + 4] << 32 if bits > 32 else 0)
            assert ctx.get(getattr(dut, name)) == whole, name


async def test_statuses_are_read(rng):
    dut = registers()
    ctx = await simulation(dut)
    for _ in range(5):
        for name, (_, bits) in STATUSES.items():
            ctx.set(getattr(dut, name), rng.getrandbits(bits))
        for name, (at, _) in STATUSES.items():
            assert await value(ctx, dut, at) == ctx.get(getattr(dut, name)), name


class Counting:
    """The counters: whose words are known after a while. A background bench."""

    def __init__(self, dut, rng):
        self.dut, self.rng, self.requested = dut, rng, []

    async def answer(self, ctx):
        dut, word_valid, left = self.dut, 0, 0
        while True:
            _, _, asked, at = await ctx.tick().sample(dut.requested, dut.at)
            left = self.rng.randrange(6) if word_valid or not asked else left - 1
            word_valid = ctx.get(dut.requested) and left <= 0
            ctx.set(dut.word_valid, word_valid)
            word = self.rng.getrandbits(32)
            ctx.set(dut.word, word)
            if word_valid:
                self.requested.append((4 * ctx.get(dut.at), word))
            assert not asked or at < 128


@pytest.mark.parametrize("vector", [False, True], ids=["plain", "vector unit"])
async def test_counters_are_read(vector, rng):
    dut = registers(vector=vector)
    words = {at + 4 * n for at, bits in COUNTERS.values() for n in range(1 + (bits > 32))}
    counting = Counting(dut, rng)
    ctx = await simulation(dut, background=[counting.answer])
    for _ in range(5):
        for at in sorted(words):
            got = await value(ctx, dut, at)
            assert counting.requested == [(at, got)]
            counting.requested = []
            assert await write(ctx, dut, at, 0xFFFF_FFFF) == SLVERR
            await value(ctx, dut, COUNT)
            assert await read(ctx, dut, 0x400 + at) == (0, DECERR)
            assert not counting.requested


@pytest.mark.parametrize("vector", [False, True], ids=["plain", "vector unit"])
async def test_every_address_answers_as_it_should(vector, rng):
    dut = registers(vector=vector)
    word_valid = WORDS | READ_ONLY | {CONTROL, STATUS, FLAGS}
    if vector:
        word_valid |= {at for at, _ in VECTOR_SETTINGS.values()}
    ctx = await simulation(dut, background=[Counting(dut, rng).answer])
    for address in [*range(0, 0x140, 4), 0x200, 0xFFC]:
        assert await value(ctx, dut, 0) != 0  # so that what is left of a read would be seen
        data, response = await read(ctx, dut, address)
        assert response == (OKAY if address in word_valid else DECERR), f"read {address:#x}"
        assert address in word_valid or data == 0
        response = await write(ctx, dut, address, 0xFFFFFFFF, strobes=0)
        wanted = SLVERR if address in READ_ONLY else OKAY if address in word_valid else DECERR
        assert response == wanted, f"write {address:#x}"


async def test_settings_are_locked_while_busy():
    dut = registers(vector=True)
    ctx = await simulation(dut)
    assert await write(ctx, dut, ADDRESS, 0x1000) == OKAY
    ctx.set(dut.busy, 1)
    for address in sorted(WORDS | {at for at, _ in VECTOR_SETTINGS.values()}):
        assert await write(ctx, dut, address, 0xABCD) == SLVERR
    assert await value(ctx, dut, ADDRESS) == 0x1000
    assert await value(ctx, dut, COUNT) == 0
    assert await value(ctx, dut, STATUS) == 1
    ctx.set(dut.busy, 0)
    assert await write(ctx, dut, COUNT, 5) == OKAY
    assert await value(ctx, dut, COUNT) == 5


async def test_the_machine_changes_what_is_state(rng):
    """While it is busy; each by itself, also in the cycle in which the host is refused."""
    dut = registers(vector=True)
    held = dict.fromkeys(STATES, 0)
    ctx = await simulation(dut)
    for name in STATES:
        held[name] = rng.getrandbits(32)
        assert await write(ctx, dut, VECTOR_SETTINGS[name][0], held[name]) == OKAY
    ctx.set(dut.busy, 1)
    for _ in range(60):
        changed = {name for name in STATES if rng.random() < 0.3}
        new = {name: rng.getrandbits(32) for name in STATES}
        for name in STATES:
            ctx.set(getattr(dut, f"{name}_set"), name in changed)
            ctx.set(getattr(dut, f"{name}_next"), new[name])
        ctx.set(dut.axil.awvalid, rng.random() < 0.5)
        ctx.set(dut.axil.wvalid, 1)
        ctx.set(dut.axil.wstrb, 15)
        ctx.set(dut.axil.bready, 1)
        ctx.set(dut.axil.wdata, rng.getrandbits(32))
        ctx.set(dut.axil.awaddr, VECTOR_SETTINGS[rng.choice(STATES)][0])
        await ctx.tick()
        held.update({name: new[name] for name in changed})
        assert {name: ctx.get(getattr(dut, name)) for name in STATES} == held
    for name in STATES:
        ctx.set(getattr(dut, f"{name}_set"), 0)
    for signal in (dut.axil.awvalid, dut.axil.wvalid):
        ctx.set(signal, 0)
    await ctx.tick()
    for name in STATES:
        assert await value(ctx, dut, VECTOR_SETTINGS[name][0]) == held[name]


@pytest.mark.parametrize(
    "word, strobes, busy, error, expected",
    [
        (START, 15, 0, 0, [1, 0, 0]),
        (RESET, 15, 0, 0, [0, 1, 0]),
        (CLEAR, 15, 0, 0, [0, 0, 1]),
        (START | CLEAR, 1, 0, 0, [1, 0, 1]),
        (START | RESET, 15, 0, 0, [0, 1, 0]),
        (START, 14, 0, 0, [0, 0, 0]),
        (START, 15, 1, 0, [0, 0, 0]),
        (START, 15, 0, 5, [0, 0, 0]),
        (RESET | CLEAR, 15, 1, 5, [0, 1, 1]),
        (0xFFFFFFF8, 15, 0, 0, [0, 0, 0]),
    ],
)
async def test_control_bits_are_pulses_of_one_cycle(word, strobes, busy, error, expected):
    unit = Unit(dut := registers())
    unit.hold(busy=busy, error_code=error)
    pulses = [unit.record(signal) for signal in (dut.start, dut.reset, dut.clear)]
    ctx = await unit.simulation()
    await write(ctx, dut, STATUS, word)  # another register: nothing
    assert not any(each.cycles for each in pulses)
    await write(ctx, dut, CONTROL, word, strobes, delay=3)
    await ctx.tick().repeat(5)
    assert [len(each.cycles) for each in pulses] == expected
    readback = IRQ if word & IRQ and strobes & 2 else 0
    assert await value(ctx, dut, CONTROL) == readback


async def test_done_and_interrupt():
    dut = registers()
    ctx = await simulation(dut)
    await pulse(ctx, dut.finished)
    assert await value(ctx, dut, STATUS) == 2
    assert not ctx.get(dut.irq)
    await write(ctx, dut, CONTROL, IRQ)
    assert ctx.get(dut.irq)
    await write(ctx, dut, STATUS, 5)  # busy and error are not cleared by writing, nor is done
    assert await value(ctx, dut, STATUS) == 2
    assert ctx.get(dut.irq)
    await write(ctx, dut, STATUS, 2, strobes=2)
    assert ctx.get(dut.irq)
    await write(ctx, dut, STATUS, 2)
    assert await value(ctx, dut, STATUS) == 0
    assert not ctx.get(dut.irq)
    for bits in (START, RESET):
        await pulse(ctx, dut.finished)
        assert ctx.get(dut.irq)
        await write(ctx, dut, CONTROL, bits | IRQ)
        assert await value(ctx, dut, STATUS) == 0
        assert not ctx.get(dut.irq)
    ctx.set(dut.error_code, 9)
    assert await value(ctx, dut, STATUS) == 4
    assert ctx.get(dut.irq)
    assert await value(ctx, dut, ERROR_CODE) == 9
    await write(ctx, dut, CONTROL, 0, strobes=1)
    assert ctx.get(dut.irq), "the enable has a strobe of its own"
    await write(ctx, dut, CONTROL, 0)
    assert not ctx.get(dut.irq)


async def test_flags_are_sticky():
    dut = registers()
    ctx = await simulation(dut)
    for bit in (0, 5, 7):
        await pulse(ctx, dut.flags, 1 << bit)
    assert await value(ctx, dut, FLAGS) == 0xA1
    await write(ctx, dut, FLAGS, 0x21, strobes=14)
    await write(ctx, dut, CONTROL, START | RESET)
    assert await value(ctx, dut, FLAGS) == 0xA1
    await write(ctx, dut, FLAGS, 0x23)
    assert await value(ctx, dut, FLAGS) == 0x80
    ctx.set(dut.flags, 0x40)
    await write(ctx, dut, FLAGS, 0xFF)
    assert await value(ctx, dut, FLAGS) == 0x40, "what is seen while it is cleared stays"
    ctx.set(dut.flags, 0)
    await write(ctx, dut, CONTROL, CLEAR)
    assert await value(ctx, dut, FLAGS) == 0


async def test_accesses_take_turns():
    """Both kinds asked for all the time: each takes three cycles, and a write goes first unless the
    answer to the one before it is still there."""
    dut = registers()
    axil = dut.axil
    ctx = await simulation(dut)
    for signal in (axil.awvalid, axil.wvalid, axil.bready, axil.arvalid, axil.rready):
        ctx.set(signal, 1)
    ctx.set(axil.awaddr, COUNT)
    ctx.set(axil.araddr, COUNT)
    ctx.set(axil.wstrb, 15)
    for n in range(6):
        ctx.set(axil.wdata, n + 1)
        signals = (axil.awready, axil.arready, axil.bvalid, axil.rvalid, axil.rdata)
        seen = [(await ctx.tick().sample(*signals))[2:] for _ in range(6)]
        assert [n for n, (aw, *_) in enumerate(seen) if aw] == [2]
        assert [n for n, (_, ar, *_) in enumerate(seen) if ar] == [5]
        assert [n for n, (_, _, b, *_) in enumerate(seen) if b] == [3]
        assert [n for n, (*_, r, _) in enumerate(seen) if r] == ([0] if n else [])
        assert n == 0 or seen[0][-1] == n


async def test_an_access_waits_for_the_answer_before_it():
    """Two accesses of each kind, the first answer not taken: no answer is lost or changed."""
    dut = registers()
    axil = dut.axil
    ctx = await simulation(dut)
    for signal in (axil.awvalid, axil.wvalid, axil.arvalid):
        ctx.set(signal, 1)
    ctx.set(axil.awaddr, COUNT)
    await ctx.tick().repeat(3)
    ctx.set(axil.awaddr, 0xF00)
    await ctx.tick().repeat(3)
    ctx.set(axil.araddr, 0xF00)
    signals = (axil.awready, axil.wready, axil.arready, axil.bresp, axil.rresp, axil.rdata)
    for _ in range(4):
        _, _, *seen = await ctx.tick().sample(*signals)
        assert seen == [0, 0, 0, OKAY, OKAY, 0x53414944]
    ctx.set(axil.bready, 1)
    ctx.set(axil.rready, 1)
    answers, taken = {"b": [], "r": []}, [0, 0]
    for _ in range(14):
        signals = (axil.awready, axil.arready, axil.bvalid, axil.rvalid, axil.bresp, axil.rresp)
        _, _, aw, ar, b, r, *responses = await ctx.tick().sample(*signals)
        taken = [taken[0] + aw, taken[1] + ar]
        answers = {
            "b": answers["b"] + [responses[0]] * b, "r": answers["r"] + [responses[1]] * r
        }  # fmt: skip
        if aw:
            ctx.set(axil.awvalid, 0)
            ctx.set(axil.wvalid, 0)
        if ar:
            ctx.set(axil.arvalid, 0)
    assert taken == [1, 1]
    assert answers == {"b": [OKAY, DECERR], "r": [OKAY, DECERR]}


@pytest.mark.parametrize("given", [[], ["irq_enable", "full"], ["full"]])
def test_bits_of_a_special_register_are_those_of_its_description(given):
    """A bit that is described and driven by nothing, and one that nobody describes."""
    bits = dict.fromkeys(given, Const(1, 1))
    with pytest.raises(AssertionError, match=r"^control has the bits \['irq_enable'\], not \["):
        special_word("control", **bits)
    assert len(special_word("control", irq_enable=Const(1, 1))) == 9


def test_the_docstring_lists_every_member_with_its_width():
    text = inspect.getdoc(AxilRegisters).partition("Members\n-------\n")[2]
    listed = {}
    for names, flow, bits in re.findall(r"^([\w, ]+) : (In|Out)\((\w+)\)", text, re.MULTILINE):
        listed |= dict.fromkeys(names.split(", "), (flow, bits))
    members = AxilRegisters(config_hash=0, planes=True, vector=True).signature.members
    fewer = AxilRegisters(config_hash=0, vector=True).signature.members
    assert set(members) - set(fewer) == {"improvement_num", "improvement_den"}
    fewer = AxilRegisters(config_hash=0, planes=True).signature.members
    assert set(members) - set(fewer) == {
        *VECTOR_SETTINGS,
        *(f"{name}_{part}" for name in STATES for part in ("set", "next")),
    }  # fmt: skip
    assert listed.pop("axil") == ("In", "AxiLiteSignature")
    assert {name for name, member in members.items() if member.is_port} == set(listed)
    for name, (flow, bits) in listed.items():
        assert (members[name].flow.name, len(Signal(members[name].shape))) == (flow, int(bits)), (
            name
        )
