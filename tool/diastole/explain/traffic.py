"""Read the traffic of scratchpads and memory in a product from the waves of a machine."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from diastole.explain.shown_run import DATAPATH, ENGINE, NORTH, Arrival, Pass, ShownRun
from diastole.explain.waves import PackedLayout, Waves, member
from diastole_hw.plan.plan import Plan
from diastole_hw.schedule.tokens import (
    COMMAND_RESULTS,
    Region,
    pass_layout,
    product_layout,
    scratch_write_layout,
)

PORTS = ("m_axi_", "m_axi1_")
READ, WRITE = ("arvalid", "arready", "araddr", "arlen"), ("awvalid", "awready", "awaddr", "awlen")
BEATS = ("rvalid", "rready", "wvalid", "wready")


class ShownTraffic:
    """Read arrivals, beats and waits from the waves of a machine.

    ``accepted``: cycle in which the array accepted a pass, for all passes of all products.
    """

    def __init__(self, waves: Waves, plan: Plan, accepted: Sequence[int]):
        self.waves, self.plan, self.accepted = waves, plan, accepted
        self.written = self._written()

    def _written(self) -> dict[tuple[int, int, int], list[int]]:
        """Return the cycles of writes to each vector of a scratchpad, by region, bank and
        vector."""
        plan, waves = self.plan, self.waves
        layout = scratch_write_layout(plan)
        cycles: dict[tuple[int, int, int], list[int]] = defaultdict(list)
        for port in ("", "_1")[: plan.ports]:
            words = waves[f"{DATAPATH}write{port}"]
            accepted = waves.high(f"{DATAPATH}write_en{port}")
            if port:
                ready = waves[f"{DATAPATH}write_ready_1"]
                accepted = [at for at in accepted if ready[at]]
            for at in accepted:
                kind = member(layout, words[at], "kind")
                bank = member(layout, words[at], "bank")
                first = member(layout, words[at], "word") * plan.fill_vectors
                for vector in range(first, first + plan.fill_vectors):
                    cycles[kind, bank, vector].append(at)
        return cycles

    def _arrived(self, region: Region, bank: int, vector: int, read: int) -> int:
        """Return the cycle in which a vector had been written before the read in cycle ``read``."""
        return max(at for at in self.written[region.value, bank, vector] if at < read)

    def arrivals(self, run: ShownRun, numbers: Sequence[int], start: int) -> None:
        seen: dict[tuple[str, int, int, int], Arrival] = {}
        passes = pass_layout(self.plan)
        payload = self.waves[f"{ENGINE}pass_walk.passes__payload"]
        for number, each in zip(numbers, run.passes, strict=True):
            say = payload[self.accepted[number]]
            for read in self._read_by(run, each, passes, say, start):
                seen[read[:4]] = max(seen.get(read[:4], read), read)
        run.arrivals = sorted(seen.values())

    def _read_by(
        self, run: ShownRun, each: Pass, passes: PackedLayout, say: int, start: int
    ) -> Iterator[Arrival]:
        """Yield every block that a pass reads. ``last`` is the cycle of the last read of the
        pass."""
        side = self.plan.block
        stationary = run.ways[0].stationary
        address = member(passes, say, "stationary_addr")
        for c in range(each.cols):
            for r in range(each.rows):
                read = each.loads + start + c + r * side
                came = self._arrived(Region.STATIONARY, c, address + r * side, read)
                place = {run.ways[0].rows: each.row + r, run.ways[0].cols: each.col + c}
                row, col = place[stationary.rows], place[stationary.columns]
                yield Arrival(stationary.name, row, col, came - start, read + side - 1 - start)
        for number, way in enumerate(run.ways):
            north = way.direction == NORTH
            region, name = (Region.WEST, "west_addr") if north else (Region.SOUTH, "south_addr")
            address = member(passes, say, name)
            tensor = way.streaming
            for port in range(each.rows if north else each.cols):
                for block in range(-(-each.count // side)):
                    slot = each.first + number * each.count + block * side
                    read = slot + start + port
                    came = self._arrived(region, port, address + block * side, read)
                    along = (each.row if north else each.col) + port
                    place = {way.t: each.t0 // side + block}
                    place[way.rows if north else way.cols] = along
                    last = slot + port + min(side, each.count - block * side) - 1
                    row, col = place[tensor.rows], place[tensor.columns]
                    yield Arrival(tensor.name, row, col, came - start, last)

    def memory(self, run: ShownRun, record: int, start: int, end: int) -> None:
        """Add the beats of both directions to a run, up to the last written beat, and the waits."""
        tensors = {
            tensor.name: member(product_layout(self.plan), record, "tensors", tensor.number, "base")
            for way in run.ways
            for tensor in way.product.factors
        }
        begun = max(at for at in self.waves.high(f"{ENGINE}flight_start") if at < start)
        results = self.waves[f"{ENGINE}flight_results"][begun]
        sides = {
            way.product.result.name: "north" if way.direction == NORTH else "east"
            for way in run.ways
        }
        bases = {
            name: member(COMMAND_RESULTS, results, side, "base") for name, side in sides.items()
        }
        pitches = {
            name: member(COMMAND_RESULTS, results, side, "pitch") for name, side in sides.items()
        }
        reads: dict[int, str] = {}
        for port in PORTS[: self.plan.ports]:
            for at, address in self.beats(port, "ar", "r", start, end):
                reads[at - start] = owner(tensors, address)
            for at, address in self.beats(port, "aw", "w", start, end):
                name = owner(bases, address)
                row, byte = divmod(address - bases[name], pitches[name])
                run.writes.append((at - start, name, row, byte // 4, self.plan.beat_bytes // 4))
        run.writes.sort()
        run.cycles = run.writes[-1][0] + 1
        run.reads = "".join(reads.get(at, " ")[0] for at in range(run.cycles))
        load, sums = (
            self.waves[f"{ENGINE}pass_walk.wait_{what}"] for what in ("load", "accumulator")
        )
        run.waits = "".join(
            "l" if load[at] else "a" if sums[at] else " " for at in range(start, start + run.cycles)
        )

    def beats(
        self, port: str, address: str, data: str, start: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """Yield the cycle and the address of every beat. Requested beats arrive in order."""
        waves = self.waves

        def transfers(channel: str) -> list[int]:
            valid, ready = waves[f"{port}{channel}valid"], waves[f"{port}{channel}ready"]
            return [at for at in range(start, end) if valid[at] and ready[at]]

        addresses: list[int] = []
        for at in transfers(address):
            first = waves[f"{port}{address}addr"][at]
            count = waves[f"{port}{address}len"][at] + 1
            addresses += [first + n * self.plan.beat_bytes for n in range(count)]
        return zip(transfers(data), addresses, strict=True)


def owner(bases: Mapping[str, int], address: int) -> str:
    """Return the name of the range that holds an address: the range with the last base at or below
    the address, or "c" for a command."""
    begun = [(base, name) for name, base in bases.items() if base <= address]
    return max(begun, default=(0, "c"))[1]
