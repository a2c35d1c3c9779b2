# amaranth: UnusedElaboratable=no
"""What a top offers: its ports, and what a manifest tells of it; and what it connects itself."""

from itertools import product
from types import SimpleNamespace

import pytest
from amaranth.hdl import ClockSignal, DomainRenamer, Elaboratable, Fragment, Module, ResetSignal
from amaranth.hdl._ir import PortDirection
from amaranth.lib.wiring import In, Out

from diastole_hw.ports import port_name
from diastole_hw.top import Top
from diastole_sim.spec.command import Command
from diastole_sim.spec.command_errors import ErrorCode
from diastole_sim.spec.registers import REGISTERS
from support.axi_memory import AxiMemory
from support.bench import simulation
from support.pipelines import Built, check_pipeline
from support.plans import make_numerics, make_plan, with_vector
from support.sweep import sweep
from support.unit_bench import until

ADDRESS = {"addr": 40, "len": 8, "size": 3, "burst": 2, "cache": 4, "prot": 3}


def offered(prefix, **payload):
    """A channel whose valid is the top's."""
    outputs = {f"{prefix}{name}": ("out", width) for name, width in payload.items()}
    return outputs | {f"{prefix}valid": ("out", 1), f"{prefix}ready": ("in", 1)}


def taken(prefix, **payload):
    """A channel whose valid comes from outside."""
    inputs = {f"{prefix}{name}": ("in", width) for name, width in payload.items()}
    return inputs | {f"{prefix}valid": ("in", 1), f"{prefix}ready": ("out", 1)}


def expected_ports(data_width):
    return (
        {"aclk": ("in", 1), "aresetn": ("in", 1), "irq": ("out", 1)}
        | taken("s_axil_aw", addr=12, prot=3)
        | taken("s_axil_w", data=32, strb=4)
        | offered("s_axil_b", resp=2)
        | taken("s_axil_ar", addr=12, prot=3)
        | offered("s_axil_r", data=32, resp=2)
        | offered("m_axi_aw", **ADDRESS)
        | offered("m_axi_w", data=data_width, strb=data_width // 8, last=1)
        | taken("m_axi_b", resp=2)
        | offered("m_axi_ar", **ADDRESS)
        | taken("m_axi_r", data=data_width, resp=2, last=1)
    )


def make(rows=2, cols=1, block=4, data_width=64, **rest):
    numerics = make_numerics(block=block)
    sizes = {"rows": rows, "cols": cols, "data_width": data_width}
    return Top(make_plan(numerics, **sizes, **rest), config_hash=0x12345678)


@pytest.mark.parametrize("data_width", [32, 64, 512])
def test_ports(data_width):
    words = {PortDirection.Input: "in", PortDirection.Output: "out"}
    ports = make(data_width=data_width).ports
    found = {name: (words[flow], len(signal)) for name, (signal, flow) in ports.items()}
    assert found == expected_ports(data_width)
    assert len({id(signal) for signal, _ in ports.values()}) == len(ports)


def test_a_second_port():
    words = {PortDirection.Input: "in", PortDirection.Output: "out"}
    top = make(cols=2, data_width=128, ports=2)
    found = {name: (words[flow], len(signal)) for name, (signal, flow) in top.ports.items()}
    one = expected_ports(128)
    more = {f"m_axi1{name[5:]}": port for name, port in one.items() if name.startswith("m_axi")}
    assert found == one | more
    assert len({id(signal) for signal, _ in top.ports.values()}) == len(top.ports)
    assert top.parameters["ports"] == 2


# A bank has room for 2 chunks of 8 slices of a T tile of 32 blocks; of what is held for 48 x 32
# slices of dY, of 3 rows of cells each.
ROOM = {"stream_blocks": 512, "stationary_blocks": 4608, "pass_blocks": 3}


def test_parameters():
    top = make(rows=3, cols=2, block=4, data_width=128)
    parameters = top.parameters
    numerics = parameters.pop("numerics")
    assert numerics == make_numerics(block=4).to_dict()
    assert parameters == {
        "rows": 3,
        "cols": 2,
        "macs": 96,  # 3 x 2 cells of 4 x 4
        "in_place": True,
        "data_width": 128,
        "ports": 1,
        "address_width": 40,
        "register_version": 0x0001_0000,
        "command_version": 1,
        "max_size": 2**24 - 1,
        "max_convert_cols": 4096 * 4,
        # A bank holds 8 groups of 32 blocks. A k tile is 8 blocks: as many as blocks of 80 bits
        # need to fill beats of 128. That leaves 32 slices of 3 rows of cells for N.
        "fused_max_m": 384,
        "fused_max_n": 384,
        # X along its columns, in eights of blocks: chunks of Y and T tiles of dW begin there. So
        # do lane tiles along the columns of W and dY, of 3 blocks each; dX has lanes in W's rows.
        "nests": {
            "forward": {"t_blocks": [1, 2, 4, 8, 16, 32], "groups": [8], "chunk": [8]}
            | {"chunk_side": 2, "lane_side": 3}
            | ROOM,
            "dx": {
                "t_blocks": [1, 2, 4, 8, 16, 32],
                "groups": [1, 2, 3, 4, 5, 6, 7, 8],
                "chunk": [24],
                "chunk_side": 3,
                "lane_side": 2,
            }
            | ROOM,
            "dw": {"t_blocks": [8, 16, 32], "groups": [8], "chunk": [2, 4, 6, 8]}
            | {"chunk_side": 2, "lane_side": 3}
            | ROOM,
        },
    }


def test_no_fused_pass_at_the_edge():
    parameters = make(in_place=False).parameters
    assert (parameters["fused_max_m"], parameters["fused_max_n"]) == (0, 0)
    assert parameters["in_place"] is False


def test_fused_sizes_differ():
    """43 slices of 3 blocks in M, 64 of 2 in N."""
    parameters = make(rows=2, cols=3).parameters
    assert (parameters["fused_max_m"], parameters["fused_max_n"]) == (516, 512)


def test_parameters_of_a_vector_unit():
    plan = with_vector(make_plan(make_numerics(block=4)))
    found = Top(plan, config_hash=0).parameters["vector"]
    assert (found["special"], found["panel_vectors"]) == (plan.vector.specials, 4096)
    assert "vector" not in make().parameters


@pytest.mark.parametrize("block, cols", [(1, 4096), (32, 131072)])
def test_columns_that_can_be_converted(block, cols):
    assert make(block=block).parameters["max_convert_cols"] == cols


@pytest.mark.parametrize(
    "rows, block, cycles",
    [(1, 1, 4), (3, 1, 4), (1, 4, 4), (5, 1, 5), (2, 4, 8), (3, 32, 96)],
)
def test_latencies(rows, block, cycles):
    """A pass is as long as a word to each row of each cell takes to load, or 4 cycles."""
    latencies = make(rows=rows, block=block).latencies
    assert latencies == {"pass_min_cycles": cycles, "hop_cycles": 1, "cell_cycles": 2}
    later = make(rows=rows, block=block, output_register=True).latencies
    assert later == latencies | {"cell_cycles": 3}


@pytest.mark.parametrize("widths", [(2,), sweep((2, 8))])
def test_units_agree_on_widths(widths):
    """All of them have the fields of widths, in a machine of one plane too."""
    plan = make_plan(make_numerics(block=2, formats="fast", widths=widths), rows=1, cols=1)
    top = Top(plan, config_hash=0)
    assert top.parameters["register_version"] == 0x0001_0000
    Fragment.get(top, None)


def test_of_several_errors_the_first_ones_counts():
    """Of ports first, then of readers; its code, and its command's number."""
    top = make(cols=2, data_width=128, ports=2)
    names = [port_name(name, port) for port in range(2) for name in ("reader", "writer")]
    kinds = {"error": 1, "error_code": 8, "error_command": 1}
    members = {f"{name}_{kind}": In(bits) for name in names for kind, bits in kinds.items()}

    def build(m, unit):
        units = {
            name: SimpleNamespace(**{kind: getattr(unit, f"{name}_{kind}") for kind in kinds})
            for name in names
        }
        units["fetch"] = SimpleNamespace(fault=unit.fault, fault_number=unit.fault_number)
        top._faults(m, units, None)

    cases = []
    for fails in product((0, 1), repeat=len(names)):
        given, want = {}, {"fault": 0, "fault_number": 0}
        for number, name in reversed([*enumerate(names)]):
            code, command = fails[number] * (number + 1), fails[number] * (number % 3 == 1)
            given |= {f"{name}_error": fails[number], f"{name}_error_code": code}
            given |= {f"{name}_error_command": command}
            if fails[number]:
                want = {"fault": code, "fault_number": command}
        cases.append((given, want))
    dut = Built(members | {"fault": Out(8), "fault_number": Out(1)}, build)
    check_pipeline(dut, cases, latency=0)


class Clocked(Elaboratable):
    """A top with the clock and the reset of a bench."""

    def __init__(self, top):
        self.top = top

    def elaborate(self, platform):
        m = Module()
        m.submodules.top = DomainRenamer("inside")(self.top)
        m.d.comb += [self.top.aclk.eq(ClockSignal()), self.top.aresetn.eq(~ResetSignal())]
        return m


OFFSETS = {register.name: register.offset for register in REGISTERS}
START, RESET, BUSY = 1, 2, 1


async def write(ctx, axil, **values):
    for name, value in values.items():
        for word in range(2 if value >> 32 else 1):
            ctx.set(axil.awaddr, OFFSETS[name] + 4 * word)
            ctx.set(axil.wdata, value >> 32 * word & 2**32 - 1)
            for ready in (axil.wstrb, axil.awvalid, axil.wvalid, axil.bready):
                ctx.set(ready, -1)
            await until(ctx, axil.awready & axil.wready)
            ctx.set(axil.awvalid, 0)
            ctx.set(axil.wvalid, 0)
            await until(ctx, axil.bvalid)


async def read(ctx, axil, name):
    ctx.set(axil.araddr, OFFSETS[name])
    ctx.set(axil.arvalid, 1)
    ctx.set(axil.rready, 1)
    await until(ctx, axil.arready)
    ctx.set(axil.arvalid, 0)
    while True:
        _, _, valid, value = await ctx.tick().sample(axil.rvalid, axil.rdata)
        if valid:
            return value


async def test_busy_until_open_bursts_have_ended():
    """After the reset bit too."""
    top = make(rows=1, block=1, data_width=32)
    memory = AxiMemory(top.axi, 32, latency=100)
    ctx = await simulation(Clocked(top), background=[memory.serve])
    await write(ctx, top.axil, read_limit=2**20, command_count=1, control=START)
    await until(ctx, top.axi.arvalid & top.axi.arready)
    await write(ctx, top.axil, control=RESET)
    for _ in range(3):
        assert await read(ctx, top.axil, "status") == BUSY
    assert not memory.read_moves
    await ctx.tick().repeat(200)
    assert await read(ctx, top.axil, "status") == 0


@pytest.mark.parametrize("end", [0x8000, 0x9000])
async def test_each_side_has_its_window(end):
    """What may be read may not be written, and the other way round."""
    top = make(rows=1, block=1, data_width=32)
    memory = AxiMemory(top.axi, 32)
    places = {"source": 0x2000, "destination": 0x8000}
    command = Command.convert("x", rows=1, cols=1, **places, tag=0, step=0)
    memory.contents |= {0x1000 + n: byte for n, byte in enumerate(command.encode())}
    ctx = await simulation(Clocked(top), background=[memory.serve])
    await write(ctx, top.axil, read_base=0x1000, read_limit=0x8000, write_base=0x8000)
    await write(ctx, top.axil, write_limit=end, command_address=0x1000, command_count=1)
    await write(ctx, top.axil, control=START)
    while await read(ctx, top.axil, "status") & BUSY:
        pass
    written = [address for address, _ in memory.writes]
    assert bool(written) == (end > 0x8000)
    assert await read(ctx, top.axil, "error_code") == (0 if written else ErrorCode.WINDOW)
