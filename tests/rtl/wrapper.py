"""A module around the machine, for the AXI models of cocotbext-axi."""

from amaranth.hdl._ir import PortDirection

IDS = {"awid": "output", "bid": "input", "arid": "output", "rid": "input"}


def wrapped(machine: str, ports: dict) -> tuple[str, str]:
    """Name and Verilog of a module with the ports of ``machine``, AXI identifiers added.

    The models want identifiers; the machine needs none. They read the machine's outputs after the
    clock's rising edge, where some simulators show the values before it and others those after it:
    here outputs change at the falling edge, so that both are the same.
    """
    name = f"{machine}_with_ids"
    directions = {flow: flow.value for flow in PortDirection}
    declared = [(port, directions[flow], len(signal)) for port, (signal, flow) in ports.items()]
    outputs = [(port, width) for port, flow, width in declared if flow == "output"]
    lines = [f"module {name} ("]
    lines += [
        f"  {flow}{' reg' if flow == 'output' else ''} [{width - 1}:0] {port},"
        for port, flow, width in declared
    ]
    lines += [f"  {flow} [0:0] m_axi_{port}," for port, flow in IDS.items()]
    lines[-1] = lines[-1].rstrip(",")
    lines += [");", "  assign m_axi_awid = 1'b0;", "  assign m_axi_arid = 1'b0;"]
    lines += [f"  wire [{width - 1}:0] from_{port};" for port, width in outputs]
    lines += ["  always @(negedge aclk) begin"]
    lines += [f"    {port} <= from_{port};" for port, _ in outputs]
    lines += ["  end", f"  {machine} {machine} ("]
    lines += [
        f"    .{port}({'from_' if flow == 'output' else ''}{port})," for port, flow, _ in declared
    ]
    lines[-1] = lines[-1].rstrip(",")
    return name, "\n".join([*lines, "  );", "endmodule", ""])
