"""Verilog around a product in the simulation."""

from diastole_sim.host.product import Product

NAME = "Harness"  # no product has a name with a capital letter
CLOCK = "aclk"


def harness(product: Product) -> str:
    """Return a module with the product's ports that registers every input at the clock edge.

    The inputs of the product then change together with its registers, and Verilator need not
    evaluate logic behind inputs apart from the clock. By measurement such logic was a third of all
    work.
    """
    ports: list[str] = []
    registers: list[tuple[str, str]] = []
    connections: list[str] = []
    for name, direction, width in product.ports:
        bits = f"[{width - 1}:0] " if width > 1 else ""
        is_input = direction.startswith("i")
        ports.append(f"    {'input' if is_input else 'output'} {bits}{name}")
        passed = is_input and name != CLOCK
        if passed:
            registers.append((f"    reg {bits}{name}_q;", f"        {name}_q <= {name};"))
        connections.append(f"        .{name}({name}{'_q' if passed else ''})")
    lines = [f"module {NAME} (", ",\n".join(ports), ");"]
    lines += [declaration for declaration, _ in registers]
    lines += [f"    always @(posedge {CLOCK}) begin"]
    lines += [assignment for _, assignment in registers]
    lines += ["    end", f"    {product.top} product (", ",\n".join(connections), "    );"]
    return "\n".join([*lines, "endmodule"]) + "\n"
