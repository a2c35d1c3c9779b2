"""Print what the cycle-and-byte model says of a machine: utilisation, traffic, and what if.

python scripts/model.py [--size 512] [--rows 2 --cols 2 --block 8 --data-width 64] ...
"""

import argparse
import sys
from dataclasses import replace

from diastole_sim.perf import Machine, Memory, estimate

OPERATIONS = ("forward", "dx", "dw", "backward")
TENSORS = {"forward": (0, 1), "dx": (1, 2), "dw": (0, 2), "backward": (0, 1, 2)}


def stored_bytes(machine: Machine, op: str, size: int) -> int:
    """Bytes of the images that ``op`` reads, each once."""
    return machine.beat_bytes * sum(machine.stored_beats(t, size, size) for t in TENSORS[op])


def table(machine: Machine, size: int) -> None:
    print(f"{size} x {size} x {size}; cycles without work by what was awaited")
    head = ("", "cycles", "utilisation", "read/stored", "load", "bank", "short", "tail")
    print(("{:<9}" + "{:>12}" * 7).format(*head))
    for op in OPERATIONS:
        e = estimate(machine, op, size, size, size)
        name = "fused" if e.fused else op
        ratio = e.read_bytes / stored_bytes(machine, op, size)
        print(
            f"{name:<9}{e.cycles:>12}{e.utilisation:>11.2%} {ratio:>12.3f}"
            + "".join(f"{e.idle[key]:>12}" for key in ("load", "accumulator", "short", "tail"))
        )


def what_if(machine: Machine, size: int) -> None:
    changes = {
        "as it is": {},
        "one bank of accumulators": {"banks": 1},
        "loads not hidden": {"buffers": 1},
        "two vectors filled per cycle": {"fill_vectors": 2},
        "memory of 100 cycles": {"memory": Memory.axi(100)},
    }
    print(("\n{:<30}" + "{:>10}" * 4).format("utilisation", *OPERATIONS))
    for name, change in changes.items():
        other = replace(machine, **change)
        values = (estimate(other, op, size, size, size).utilisation for op in OPERATIONS)
        print(f"{name:<30}" + "".join(f"{value:>10.1%}" for value in values))


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=512, help="of M, N and K, elements")
    for name, default in (("rows", 2), ("cols", 2), ("block", 8), ("data-width", 64)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--bits", type=int, default=5, help="of a stored element of every class")
    parser.add_argument("--latency", type=int, default=20, help="of the memory, cycles")
    parser.add_argument("--edge", action="store_true", help="transposition at the edge")
    given = parser.parse_args(arguments)
    try:
        machine = Machine(
            rows=given.rows,
            cols=given.cols,
            block=given.block,
            element_bits=(given.bits,) * 3,
            data_width=given.data_width,
            in_place=not given.edge,
            memory=Memory.axi(given.latency),
        )
        table(machine, given.size)
        what_if(machine, given.size)
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
