"""Size of a machine, as far as known without generating the machine."""

from dataclasses import asdict, dataclass
from typing import Any

from diastole.config.keys import Config
from diastole.layers.cell_areas import cell_area

KIB = 8 * 1024


@dataclass(frozen=True, kw_only=True)
class MachineSize:
    """Size of a machine.

    - ``scratchpad_kib``, ``sum_kib``: memories that feed the array, and memories for sums.
    - ``area_per_mac_nand2``: area of a cell per MAC, None if no similar cell was measured.
    """

    multipliers: int
    scratchpad_kib: float
    sum_kib: float
    area_per_mac_nand2: float | None

    @property
    def cells_nand2(self) -> float | None:
        """Area of all cells in NAND2 equivalents, None if not known."""
        area = self.area_per_mac_nand2
        return None if area is None else area * self.multipliers

    def record(self) -> dict[str, Any]:
        """Return the record for ``--json``."""
        return asdict(self) | {"cells_nand2": self.cells_nand2}

    def __str__(self) -> str:
        area = "an area that was not measured"
        if self.cells_nand2 is not None:
            area = f"{self.cells_nand2 / 1000:.1f} k NAND2 ({self.area_per_mac_nand2:.0f} per MAC)"
        return (
            f"{self.multipliers} multipliers in cells of {area}; scratchpads of "
            f"{self.scratchpad_kib:.1f} KiB, sums of {self.sum_kib:.1f} KiB"
        )


def machine_size(config: Config) -> MachineSize:
    """Return the size of the machine of a configuration."""
    from diastole_hw.memory.memory_sizes import scratchpad_bits, sum_bits  # Amaranth takes a while

    return MachineSize(
        multipliers=config.macs,
        scratchpad_kib=scratchpad_bits(config.plan) / KIB,
        sum_kib=sum_bits(config.plan) / KIB,
        area_per_mac_nand2=cell_area(config.numerics),
    )
