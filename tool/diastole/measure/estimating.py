"""How long estimates take: known layers on one machine, and layers on many machines."""

import random
import time
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from diastole.config.file import from_document
from diastole.config.presets import PRODUCTS_ONLY
from diastole.files.layers import NamedLayer
from diastole.layers.costs import layer_costs
from diastole.layers.sweep import configurations, on_all_cores, swept
from diastole.measure.figure import Figure, at_most
from diastole.measure.networks import LISTS, layers_of
from diastole_sim.perf.machine import LATENCY

PHASES = ("forward", "backward")
MOST_SECONDS: Mapping[str, float] = {"resnet-50": 3.0, "bert-base": 2.0}
"""By list of layers, for all of them on `nano`."""
SERVED, SERVED_SECONDS = "llama-7b", 5.0
"""The list of layers on `server`: 18 products."""
LAYERS = 50
SWEPT = (
    "array.rows=1,2,4,8,16",
    "array.cols=1,2,4,8",
    "bus.data_width=32,64,128,256,512",
)
MOST_SWEPT_SECONDS = 180.0


def figures(over: Sequence[str] = SWEPT, count: int = LAYERS) -> Iterator[Figure]:
    """Seconds of wall time, with all cores, of which nothing else should ask."""
    asked = [
        *((name, "nano", PHASES, most) for name, most in MOST_SECONDS.items()),
        (SERVED, "server", ("forward", "dx", "dw"), SERVED_SECONDS),
    ]
    for name, preset, phases, most in asked:
        began = time.perf_counter()
        with on_all_cores() as mapped:
            layer_costs(PRODUCTS_ONLY[preset], layers_of(name, 1), phases, LATENCY, mapped)
        seconds = time.perf_counter() - began
        yield at_most(f"estimate of {name} on {preset}, seconds", seconds, most, "{:.1f}")
    nano = PRODUCTS_ONLY["nano"]
    machines = configurations(over, partial(from_document, nano.model_dump(exclude_none=True)))
    layers = drawn_layers(count)
    began = time.perf_counter()
    found = list(swept(machines, layers, PHASES, LATENCY))
    seconds = time.perf_counter() - began
    what = f"estimate of {len(layers)} layers, {len(found)} machines, seconds"
    yield at_most(what, seconds, MOST_SWEPT_SECONDS, "{:.0f}")


def drawn_layers(count: int) -> list[NamedLayer]:
    """Of different sizes, of all networks that are known; the same in every run."""
    known = {(each.m, each.k, each.n): each for name in LISTS for each in layers_of(name, 1)}
    return random.Random(0).sample(list(known.values()), count)
