"""Random numbers of a chain in time, beside what the hardware counts."""

import pytest

from diastole_sim.perf.chain_times import estimate_chain
from diastole_sim.perf.modelled_vector import ChainTask
from diastole_sim.spec.command import Command
from diastole_sim.spec.limits import VectorTable
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.stream_table import Descriptor, Kind, Walk
from support.vector_engine import do_jobs, engine_of, golden_bench, job_of
from support.vector_model import modelled_vector

READ = Instruction(op=MicroOp.MOV, a=Source.S0, o=0)
WORK = Instruction(op=MicroOp.MOV, a=Source.ONE, d=1)
STREAMS = {
    0: Descriptor(kind=Kind.DRAWS, pitch=5),
    4: Descriptor(kind=Kind.CONSTANT, address=200),
}


def counted(block, walk, program, rng):
    """Cycles of a chain on the vector unit."""
    bench = golden_bench(block, 128)
    place = bench.load(program)
    words = b"".join(each.encode().to_bytes(8, "little") for each in program)
    table = b"".join(STREAMS.get(n, Descriptor()).encode() for n in range(8))
    commands = [
        Command.load(which, address=bench.put(data), first=0, count=count)
        for which, data, count in (
            (VectorTable.INSTRUCTIONS, words, len(program)),
            (VectorTable.DESCRIPTORS, table, 8),
        )
    ]
    commands.append(Command.chain(place, m=walk.rows, n=walk.cols, columns=walk.by_columns))
    job = job_of(bench, commands)
    assert not job.error
    dut = engine_of(block, 128, draws=True)
    return do_jobs(dut, [job], rng, stalls=False, limit=100_000).cycles[-1]


@pytest.mark.parametrize("by_columns", [False, True])
@pytest.mark.parametrize("cols", [1, 4, 5])
@pytest.mark.parametrize("length", [1, 4])
@pytest.mark.parametrize("block", [1, 2, 4, 8])
@pytest.mark.sampled(12)
def test_as_the_hardware(block, length, cols, by_columns, rng):
    """To the cycle but for blocks of a side of 1 and 2, of which the model is a little slow."""
    cols = cols * block + (cols == 5)
    walk = Walk(rows=5 * block + 1, cols=cols, block=block, by_columns=by_columns)
    program = (READ, *[WORK] * (length - 1))
    task = ChainTask(program=program, inputs={0: STREAMS[0]}, outputs={0: STREAMS[4]}, walk=walk)
    vector = modelled_vector(block=block, specials=max(1, block // 4))
    found = counted(block, walk, program, rng)
    above = estimate_chain(vector, task).done - found
    assert -1 <= above <= (max(5, 0.04 * found) if block < 4 else 1)
