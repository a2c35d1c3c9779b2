"""Facts about the machine of the playground, from the sources that hardware and host share."""

import re
import struct

from diastole.config.presets import PRESETS
from diastole_hw.command.dispatch import events_of
from diastole_sim.host.product import Product
from diastole_sim.machines.verilator.find import find_verilator
from diastole_sim.spec.registers import BY_NAME

LOSSES = re.compile(r"_vectors_losses\[\d+\] = \{(.*?)\}", re.DOTALL)


def facts(product: Product) -> dict[str, object]:
    """Return what the page says about the machine: versions, sizes, the losses of the golden model,
    registers, and the first bit of every event."""
    vectors = (product.directory / "sw" / f"{product.name}_vectors.h").read_text()
    match = LOSSES.search(vectors)
    assert match, "host.c trains"
    words = [int(word.rstrip("u"), 16) for word in re.findall(r"0x\w+", match[1])]
    layout = events_of(PRESETS["pico"].plan)
    waits = layout["waits"]
    bits = {name: layout[name].offset for name in ("converting", "multiplying", "busy_slot")}
    bits |= {f"wait_{name}": waits.offset + field.offset for name, field in waits.shape}
    return {
        "losses": [struct.unpack("<f", struct.pack("<I", word))[0] for word in words],
        "registers": {name: BY_NAME[name].offset for name in ("cycles_total", "busy_slots")},
        "events": bits,
        "verilator": find_verilator().version,
    }
