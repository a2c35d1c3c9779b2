"""The machines whose Verilog gets faults, and the faults that are placed by hand.

``planted.txt`` has the faults. Their patterns find expressions by the names of signals. Numbers of
temporaries, bits and widths change with every line of the sources and are never named.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diastole.config.file import from_document
from diastole.config.keys import AccumulatorConfig, ArrayConfig, BusConfig, Config, FormatConfig
from mutation import check
from mutation.plant import Fault, Planted
from mutation.random_faults import SEED, random_faults
from mutation.scenes_of_cores import SCENES_OF_CORES
from mutation.scenes_of_programs import SCENES_OF_PROGRAMS, chains_with_draws
from mutation.scenes_of_streams import SCENES_OF_STREAMS
from mutation.verilog import Source
from support import products as p

WORDS = {
    "BITS": r"\[\d+(?::\d+)?\]",
    "BIT": r"\[\d+\]",
    "CONSTANT": r"\d+'h[0-9a-f]+",
    "ZERO": r"\d+'[dh]0+",
    "SOME": r"_\d+_",
}
"""Words of ``planted.txt`` that stand for patterns."""


def read_faults(text: str) -> dict[str, tuple[Fault, ...]]:
    """Return the faults of each machine."""
    found: dict[str, tuple[Fault, ...]] = {}
    machines: list[str] = []
    for line in re.sub(r"\n {4,}", " ", text).splitlines():
        if line.startswith("["):
            machines = line.strip("[]").split()
        elif line and not line.startswith("#"):
            for machine in machines:
                found[machine] = (*found.get(machine, ()), _fault(line))
    return found


def _fault(line: str) -> Fault:
    module, name, change = line.split(": ", 2)
    place, faulty = change.split(" => ")
    pattern = place.removesuffix(" everywhere")
    every = pattern != place
    for word, meaning in WORDS.items():
        pattern = pattern.replace(word, meaning)
    return Fault(name, module, pattern, faulty, every)


FAULTS = read_faults(Path(__file__).with_suffix(".txt").read_text())


@dataclass(frozen=True)
class Machine:
    """A machine, how many random faults are drawn, in ``modules`` alone unless it is empty, and
    the scenes of its check."""

    config: Config
    random: int = 0
    modules: tuple[str, ...] = ()
    scenes: tuple[check.Scene, ...] = check.SCENES

    @property
    def name(self) -> str:
        return self.config.name

    @property
    def faults(self) -> tuple[Fault, ...]:
        """The faults placed by hand, all of which the check must notice."""
        return FAULTS.get(self.name, ())

    def drawn(self, sources: Mapping[str, Source], seed: int = SEED) -> list[Planted]:
        """Its random faults."""
        chosen = {name: sources[name] for name in self.modules or sources}
        return random_faults(chosen, seed=seed, count=self.random)


# One cell of four multipliers; mantissas so long that sums are rounded when they become floats.
SQUARES = Machine(
    Config(
        name="faulty",
        array=ArrayConfig(rows=1, cols=1, block=2),
        format=FormatConfig(x="bfp8", w="bfp7", dy="bfp8"),
        accumulator=AccumulatorConfig(fraction=12, headroom=8),
        bus=BusConfig(data_width=32),
    ),
)

VECTORS_OF_4 = dict.fromkeys(("x", "w", "dy"), "1x4")

# Minifloats of three kinds in vector groups, with a window; NaN poisons. Two cells above each
# other, so that partial sums pass on.
WINDOWS = Machine(
    p.machine(
        "faulty_windows",
        ("mxfp8_e4m3", "mxfp6_e3m2", "mxfp8_e5m2"),
        rows=2,
        side=2,
        data_width=32,
        special="poison",
        block=VECTORS_OF_4,
        scale=dict.fromkeys(("x", "w", "dy"), "rceil"),
        accumulator={"fraction": 8, "headroom": 8},
    ),
)

# Minifloats with the tensor's scale, with a window, folded block by block; NaN poisons.
FOLDS = Machine(
    p.machine(
        "faulty_folds",
        ("fp8_e4m3", "e3m4", "fp8_e5m2"),
        side=2,
        data_width=32,
        special="poison",
        cell={"window": 16},
        accumulator={"fraction": 8, "headroom": 8},
    ),
)

# NVFP4 with two scales for each group to choose from.
TWO_SCALES = Machine(
    p.machine(
        "faulty_scales",
        "nvfp4",
        side=2,
        data_width=32,
        block=VECTORS_OF_4 | {"w": "4x4"},
        scale=dict.fromkeys(("x", "w", "dy"), "four-over-six"),
        accumulator={"fraction": 8, "headroom": 8},
    ),
)

# NVFP4, W in squares and so in both directions; two cells side by side.
TWO_LEVELS = Machine(
    p.machine(
        "faulty_two_levels",
        "nvfp4",
        cols=2,
        side=2,
        data_width=32,
        block=VECTORS_OF_4 | {"w": "4x4"},
        accumulator={"fraction": 8, "headroom": 8},
    ),
)

VECTOR_MODULES = tuple(
    """
    block_walk chain_setup chain_walk conversions decode descriptor_check position_base
    float_add float_mul gathered_rows input_fill input_requests input_streams instruction_check
    issue lane loss_scale_rule operands output_streams pack_bytes parabola prefetch product_walk
    program_scan row_pack row_unpack segment_requests special_argument special_lane
    special_lanes table_transfer vector_core vector_engine word_assembler
    """.split()
)
"""Modules that only a vector unit has. Not the tables of its functions, of which hours would be
needed to see each row."""

# One cell, dY drawn at random, scales of whole tensors; a vector unit with a small panel.
STEPS = Machine(
    from_document(
        {
            "name": "faulty_steps",
            "array": {"rows": 1, "cols": 1, "block": 4},
            "format": dict.fromkeys(("x", "w", "dy"), "nvfp4"),
            "block": VECTORS_OF_4,
            "vector": {"enable": True, "panel_kib": 4},
        }
    ),
    random=100,
    modules=VECTOR_MODULES,
    scenes=SCENES_OF_PROGRAMS + SCENES_OF_CORES + SCENES_OF_STREAMS,
)

# A vector unit that draws random numbers, beside a converter that draws none.
DRAWS = Machine(
    from_document(
        {
            "name": "faulty_draws",
            "array": {"rows": 1, "cols": 1, "block": 8},
            "vector": {"enable": True, "panel_kib": 4, "draws": True},
        }
    ),
    scenes=(chains_with_draws,),
)

RANDOM = 182
"""So many that 150 are left when those are gone that change nothing."""
MACHINES = (
    SQUARES,
    WINDOWS,
    FOLDS,
    TWO_SCALES,
    TWO_LEVELS,
    Machine(p.MACHINES["mixed"]),
    Machine(p.MACHINES["nano"], RANDOM),
    Machine(p.MACHINES["mxfp8_e4m3"], RANDOM),
    Machine(p.MACHINES["nvfp4"], RANDOM),
    Machine(p.MACHINES["esru"]),
    Machine(
        p.machine("faulty_pairs", "bfp4", side=8, data_width=128, rounding=p.DRAWN["rounding"]),
    ),
    Machine(p.MACHINES["floats_odd"]),
    Machine(p.MACHINES["fast"]),
    STEPS,
    DRAWS,
)
