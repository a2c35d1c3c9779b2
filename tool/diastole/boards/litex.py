"""Write a wrapper of a machine for LiteX, as text: an instance between the buses of the SoC."""

import keyword
import re

from diastole.boards.describe import TEXTS, board_text
from diastole.errors import BadInput
from diastole_hw.bus.signature import CACHE
from diastole_hw.plan_limits import RESET_CYCLES
from diastole_sim.host.product import Product
from diastole_sim.spec.command_table import ADDRESS_BITS
from diastole_sim.spec.registers import ADDRESS_SPACE_BITS

CHANNELS = ("aw", "w", "b", "ar", "r")
INTERFACES = {"s_axil": "registers", "m_axi": "memory"}


def litex_files(product: Product) -> dict[str, str]:
    """Return the files by relative path, without the files of the product, which are in
    ``product``."""
    module = f"{product.name}_litex"
    names = ["memory", *(f"memory{port}" for port in range(1, product.memory_ports))]
    values = {
        "name": product.name,
        "module": module,
        "class": python_class(product.name),
        "register_bytes": 1 << ADDRESS_SPACE_BITS,
        "data_width": product.data_width,
    }
    connections = [
        f"            {direction[0]}_{port}={signal_of(port)},"
        for port, direction, _ in product.ports
    ]
    folder = f"{product.directory}/"
    sources = [f'    "product/{str(path).removeprefix(folder)}",' for path in product.sources]
    text = board_text(
        "litex.txt",
        **values,
        top=product.top,
        sources="\n".join(sources),
        config_hash=product.manifest["config_sha256"][:8],
        ports=product.memory_ports,
        address_bits=ADDRESS_BITS,
        cache=f"{CACHE:04b}",
        reset_cycles=RESET_CYCLES,
        memory_names="\n".join(
            f"        {name} = ports[{number}]" for number, name in enumerate(names)
        ),
        connections="\n".join(connections),
    )
    return {f"{module}.py": text, "README.md": board_text("litex.md", **values)}


def python_class(name: str) -> str:
    """Return the class name of a machine: an identifier that the text does not use itself."""
    made = "".join(word.capitalize() for word in name.split("_"))
    used = re.findall(r"\w+", (TEXTS / "litex.txt").read_text(encoding="utf-8"))
    return f"{made}Machine" if made in used or keyword.iskeyword(made) else made


def signal_of(port: str) -> str:
    """Return the signal of LiteX for a port of the machine.

    BadInput for a port for which the wrapper has no signal.
    """
    own = {
        "aclk": 'ClockSignal("sys")',
        "aresetn": "running",
        "irq": "self.irq",
    }
    if port in own:
        return own[port]
    match = re.fullmatch(rf"(s_axil|m_axi)(\d*)_({'|'.join(CHANNELS)})(\w+)", port)
    if match is None:
        raise BadInput(
            f"the wrapper for LiteX has no signal for the port {port}: it knows "
            f"{', '.join(own)} and the members of AXI4 and AXI4-Lite"
        )
    bus, number, channel, member = match.groups()
    return f"{INTERFACES[bus]}{number}.{channel}.{member}"
