"""Commands in flight, two at a time: the same bits as one by one, errors with the right index, and
nothing that hangs, whatever happens to them."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from diastole_sim.host.ahead import areas_of, mark_overlaps
from diastole_sim.host.control import control_bit
from diastole_sim.host.errors import CommandError
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.command_table import NEST_FIELDS
from diastole_sim.spec.nest import KEEP_VALUES, OUTER
from support import products as p
from support.nests import blocks_of, drawn_nest
from support.scenario import Scenario
from support.sweep import sweep

SIZES = {"m": 21, "n": 18, "k": 35}
OPS = ("convert", "forward", "dx", "dw", "backward")
MACHINES = ["pico", "mixed", "mxfp8_e4m3", "nvfp4"]
RUNS = [
    *product(MACHINES, [None, 5]),
    sweep("wide", 2),
    ("ports", 3),
    sweep("ports_mxfp8", 3),
    sweep("textbook", 4),
    sweep("turning", None),
]


@pytest.fixture
def scenario(devices, goldens, np_rng):
    """``scenario(name, stalls)``."""
    made = []

    def make(name, stalls=None):
        made.append(Scenario(devices(name, stalls), goldens(name), np_rng, SIZES))
        return made[-1]

    yield make
    for each in made:
        each.machine.fail_reads()
        each.machine.fail_writes()
        each.close()


def drawn(scenario, op, rng):
    """That command; every other time a product has a nest of its own."""
    command = scenario.commands[op]
    loops = scenario.device.loops.limits.of(op) if op not in ("convert", "backward") else None
    if loops is None or rng.random() < 0.5:
        return command
    block = scenario.device.numerics.block
    nest = drawn_nest(loops, blocks_of(op, tuple(SIZES.values()), block), rng)
    fields = {field: getattr(nest, name) for name, field in NEST_FIELDS.items()}
    return replace(
        command,
        **fields,
        nest_outer=OUTER.index(nest.outer),
        nest_keep=KEEP_VALUES.index(nest.keep),
    )


def ahead(scenario, commands):
    """The commands, each ahead of the one before it where it may be."""
    device = scenario.device
    return mark_overlaps(commands, device.numerics, device.product.data_width)


@pytest.mark.parametrize("name, stalls", RUNS)
@pytest.mark.sampled(2)
def test_the_same_bits_as_one_by_one(name, stalls, scenario, rng):
    """Every kind behind every other, and itself, whose results are the same memory."""
    here = scenario(name, stalls)
    order = [op for pair in product(OPS, OPS) for op in pair]
    for first in range(0, len(order), 8):
        ops = order[first : first + 8]
        commands = ahead(here, [drawn(here, op, rng) for op in ops])
        assert all(
            later.ahead == (op != before)
            for before, op, later in zip(ops, ops[1:], commands[1:], strict=False)
        )
        here.run(commands, limit=10_000_000)
        here.assert_right(*ops)


@pytest.mark.parametrize("name", MACHINES)
def test_what_is_independent_takes_less_time_together(name, scenario):
    here = scenario(name)
    for ops in (("forward", "dx"), ("dw", "convert"), ("convert", "forward"), ("dx", "dw")):
        commands = [here.commands[op] for op in ops]
        cycles = []
        for each in (commands, ahead(here, commands)):
            here.run(each)
            here.assert_right(*ops)
            cycles.append(here.device.control.read("cycles_total"))
        assert cycles[1] < cycles[0], ops


@pytest.mark.parametrize("stalls", [None, 5])
def test_a_product_of_what_the_command_before_converts(stalls, scenario):
    """It is not ahead, and waits for the last byte of it."""
    here = scenario("mixed", stalls)
    images = [result.address for result in here.results["convert"]]
    product_ = here.changed("forward", address_x=images[0])
    commands = ahead(here, [here.commands["convert"], product_])
    assert [command.ahead for command in commands] == [0, 0]
    here.run(commands)
    here.assert_right("convert", "forward")


COUNT = 12
MANY = 300


@pytest.mark.parametrize(
    "name, stalls, count",
    [(*pair, COUNT) for pair in product(MACHINES, [3])]
    + [
        sweep(*pair, MANY)
        for pair in product([*MACHINES, "wide", "textbook", "turning", "ports", "ports_nvfp4"], [1])
    ],
)
def test_pairs_and_what_may_happen_to_them(name, stalls, count, scenario, rng):
    """An error of the bus at any beat, or a reset in any cycle: the error has the index of a
    command that meets it, nothing is written elsewhere, and the next commands are right."""
    here = scenario(name, stalls)
    for number in range(count):
        ops = rng.choice(OPS), rng.choice(OPS)
        commands = [drawn(here, op, rng) for op in ops]
        if rng.random() < 0.8:
            commands = ahead(here, commands)
        what = ("error of a read", "error of a write", "reset", "window")[number % 4]
        if what == "reset":
            reset_within(here, commands, rng)
        else:
            failing(here, commands, ops, what, rng)
        here.machine.fail_reads()
        here.machine.fail_writes()
        here.run(ahead(here, [here.commands[op] for op in OPS]), limit=1_000_000)
        here.assert_right(*OPS)


def reset_within(here, commands, rng):
    """A reset while both are under way, or at the beginning or behind the end of them."""
    control, machine = here.device.control, here.machine
    encoded = b"".join(command.encode() for command in commands)
    machine.bytes_at(here.at, len(encoded))[:] = bytearray(encoded)
    control.set("command_count", len(commands))
    control.set("command_address", here.at)
    ranges = here.ranges(*here.results)
    control.set_windows(here.reads, (min(r[0] for r in ranges), max(r[1] for r in ranges)))
    machine.allow_writes(*ranges)
    machine.traffic(clear=True)
    control.write("control", control_bit("clear") | control_bit("irq_enable"))
    control.write("control", control_bit("start") | control_bit("irq_enable"))
    machine.idle(rng.randrange(2500))
    control.reset()
    assert machine.traffic().strays == 0
    assert (machine.state.open_reads, machine.state.open_writes) == (0, 0)


def failing(here, commands, ops, what, rng):
    """Run a pair of which a beat fails, or that has an operand or a result outside the windows."""
    write = what == "error of a write"
    victim = rng.randrange(2)
    command = commands[victim]
    code = {"window": ErrorCode.WINDOW, "error of a read": ErrorCode.READ_RESPONSE}
    if what == "window":
        field = rng.choice([n for n in ("address_x", "address_w", "out_a") if getattr(command, n)])
        if ops[victim] == "convert":
            field = "address_x"
        commands = [*commands]
        outside = here.reads[1] if field.startswith("address") else here.machine.memory_base
        commands[victim] = replace(command, **{field: outside})
        victims = {victim}
    else:
        beat = here.device.product.data_width // 8
        first, end = spans(here, command, ops[victim], write=write)
        at = rng.randrange(first // beat, (end - 1) // beat + 1) * beat
        (here.machine.fail_writes if write else here.machine.fail_reads)((at, at + 1))
        victims = {n for n, each in enumerate(commands) if touches(here, each, at, write=write)}
    with pytest.raises(CommandError) as caught:
        here.run(commands)
    assert caught.value.code == code.get(what, ErrorCode.WRITE_RESPONSE)
    assert caught.value.index in victims
    if not commands[1].ahead and caught.value.index:
        here.assert_right(ops[0])


def touches(here, command, address, *, write):
    """Whether a command may read or write an address."""
    areas = areas_of(command, here.device.numerics, here.device.product.data_width)
    return any(low <= address < high for low, high in (areas.writes if write else areas.reads))


def spans(here, command, op, *, write):
    """Bytes that a command surely reads or writes: the first exponents of an operand, the floats
    of a conversion, its first result."""
    if write:
        return here.results[op][0].range
    if op == "convert":
        return command.address_x, command.address_x + here.floats.total_bytes
    name, field = ("W", "address_w") if op in ("forward", "dx", "backward") else ("X", "address_x")
    address = getattr(command, field)
    image = next(i for i in here.operands[name].images if i.address == address)
    group = image.layout.group
    return address, address + group.header_bytes + group.exponent_bytes


def test_products_and_a_conversion_from_python(devices, goldens, np_rng):
    """What a device offers: products together, and a conversion beside the next product."""
    device, golden = devices("mixed", 5), goldens("mixed")
    data = p.tensors(np_rng, (21, 35, 18), "wide")
    held, wanted = p.convert(device, data), p.convert(golden, data)
    asked = ["forward", "dw", "dx", "backward", "forward"]
    reads = {"forward": "X W", "dx": "W dY", "dw": "X dY", "backward": "X W dY"}
    results = device.multiply_together(
        [(op, [held[name] for name in reads[op].split()]) for op in asked]
    )
    for op, result in zip(asked, results, strict=True):
        for name, values in p.multiply(golden, op, wanted).values.items():
            p.same_bits(result.values[name], values, f"{op}, {name}")
    before = device.total_cycles
    early = device.convert(data["dY"], "dy", tag=9, step=4, overlap=True)
    assert early.pending
    assert device.total_cycles == before
    result = p.multiply(device, "forward", held)
    assert not early.pending
    assert result.counters.total_cycles == device.total_cycles - before
    expected = golden.convert(data["dY"], "dy", tag=9, step=4)
    assert (early.saturated, early.underflowed) == (expected.saturated, expected.underflowed)
    p.same_bits(early.values(), expected.values(), "dY")
    p.same_bits(result.values["Y"], p.multiply(golden, "forward", wanted).values["Y"], "Y")
    alone = device.convert(data["dY"], "dy", tag=9, step=4, overlap=True)
    p.same_bits(alone.values(), expected.values(), "dY, asked for at once")
    again = device.convert(data["dY"], "dy", tag=9, step=4, overlap=True)
    dw = device.dw(held["X"], again)  # of the very tensor
    want = golden.dw(wanted["X"], expected)
    p.same_bits(dw.values["dW"], want.values["dW"], "dW")
    assert np.isfinite(dw.values["dW"]).all()


def test_gradients_apart_are_two_products_among_others_too(devices, np_rng):
    """Each in loops that suit it, as when they are asked for alone."""
    device = devices("nvfp4")
    held = p.convert(device, p.tensors(np_rng, (33, 70, 41), "wide"))
    operands = [held[name] for name in ("X", "W", "dY")]
    assert len(device.loops.products("backward", m=33, n=41)) == 2
    alone = device.backward(*operands)
    (together,) = device.multiply_together([("backward", operands)])
    assert together.counters.total_cycles == alone.counters.total_cycles
    for name in ("dX", "dW"):
        p.same_bits(together.values[name], alone.values[name], name)
