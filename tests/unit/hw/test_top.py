# amaranth: UnusedElaboratable=no
"""What a top offers: its ports, and what a manifest tells of it."""

import pytest
from amaranth.hdl import Fragment
from amaranth.hdl._ir import PortDirection

from diastole_hw.top import Top
from support.plans import make_numerics, make_plan
from support.sweep import sweep

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
ROOM = {"stream_blocks": 512, "held_blocks": 4608, "pass_blocks": 3}


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
