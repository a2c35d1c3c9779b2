"""List the units of load and execute that the product engine contains."""

from dataclasses import dataclass, fields

from diastole_hw.engine.flight import Flight
from diastole_hw.engine.setup import Setup
from diastole_hw.execute.datapath import Datapath
from diastole_hw.execute.pass_walk import PassWalk
from diastole_hw.execute.slots import PassRun
from diastole_hw.load.region_requests import RegionRequests
from diastole_hw.load.write_scratchpads import WriteScratchpads
from diastole_hw.memory.maxima import Maxima
from diastole_hw.schedule.ring import RingSpace
from diastole_hw.schedule.tile_walk import TileWalk
from diastole_hw.stream.credit import Credit
from diastole_hw.stream.fifo import StreamFifo


@dataclass(frozen=True, kw_only=True)
class Loader:
    """Units that every port to memory has separately."""

    requests: RegionRequests
    regions: StreamFifo
    fill: WriteScratchpads
    blocks_loaded: Credit
    maxima_loaded: Credit


@dataclass(frozen=True, kw_only=True)
class Stages:
    """Units of load and execute, and the units that track the products. ``others``: loaders of all
    ports but the first; the units of the first port are fields of this class."""

    setup: Setup
    flight: Flight
    walk: TileWalk
    requests: RegionRequests
    regions: StreamFifo
    fill: WriteScratchpads
    chunks: StreamFifo
    pass_walk: PassWalk
    passes: StreamFifo
    pass_run: PassRun
    datapath: Datapath
    maxima: Maxima
    stream_space: RingSpace
    stationary_space: RingSpace
    west_space: Credit
    blocks_loaded: Credit
    maxima_loaded: Credit
    others: tuple[Loader, ...] = ()

    @property
    def loaders(self) -> list[Loader]:
        """Loaders of all ports."""
        names = [field.name for field in fields(Loader)]
        return [Loader(**{name: getattr(self, name) for name in names}), *self.others]
