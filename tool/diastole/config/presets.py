"""The named configurations: bfp4 throughout, gradients rounded stochastically, F = 18, G = 14, and
a vector unit, for whole steps of training.

The names begin with ``diastole_`` because the name of a preset may be a keyword of Verilog
(``edge``).
"""

from pathlib import Path

from diastole.config.keys import ArrayConfig, BusConfig, Config, VectorConfig

PRESETS = {
    # The smallest machine that does everything: for tests and for reading waves. 16 multipliers.
    "pico": Config(
        name="diastole_pico",
        array=ArrayConfig(rows=1, cols=1, block=4),
        bus=BusConfig(data_width=32),
        vector=VectorConfig(enable=True, panel_kib=16),
    ),
    # The machine of the demonstration. 256 multipliers. Without the vector unit, the memories fit
    # the block RAM of an ECP5-85F.
    "nano": Config(
        name="diastole_nano",
        array=ArrayConfig(rows=2, cols=2, block=8),
        bus=BusConfig(data_width=128),
        vector=VectorConfig(enable=True),
    ),
    # A machine for training at the edge. 2 304 multipliers.
    "edge": Config(
        name="diastole_edge",
        array=ArrayConfig(rows=6, cols=6, block=8),
        bus=BusConfig(data_width=256),
        vector=VectorConfig(enable=True),
    ),
    # One core of a server's chip. 16 384 multipliers.
    "server": Config(
        name="diastole_server",
        array=ArrayConfig(rows=16, cols=16, block=8),
        bus=BusConfig(data_width=512, ports=2),
        vector=VectorConfig(enable=True, panel_kib=256),
    ),
}
BOARD_MACHINES = {
    path.stem: path
    for path in sorted((Path(__file__).parents[1] / "boards" / "machines").glob("*.toml"))
}
"""File of a machine that fits the board, by board; ``boards/NAME/machine.toml`` of the sources."""
PRESET_NAMES = (*PRESETS, *BOARD_MACHINES)
"""Names that --preset takes."""


def products_only(config: Config) -> Config:
    """Return the machine without a vector unit: products and conversions only. A host does the
    rest."""
    vector = config.vector.model_copy(update={"enable": False})
    return config.model_copy(update={"vector": vector})


PRODUCTS_ONLY = {name: products_only(config) for name, config in PRESETS.items()}
"""Presets without a vector unit, for the measurements of arrays, converters and products."""
