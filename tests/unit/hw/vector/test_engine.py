# amaranth: UnusedElaboratable=no
"""The vector unit whole against the golden machine: memory, to the byte."""

import pytest

from support.vector_engine import do_jobs, engine_of, job_of_scene
from support.vector_scenes import small_scene

SHAPES = [(1, 32), (2, 64), (4, 32), (4, 128), (8, 64), (8, 512)]


@pytest.mark.parametrize("stalls", [False, True], ids=["free", "stalled"])
@pytest.mark.parametrize("walk", ["rows", "columns"])
@pytest.mark.parametrize("block, data_width", SHAPES)
def test_random_chains(block, data_width, walk, stalls, rng):
    jobs = [
        job_of_scene(small_scene(rng, block, length=8, walk=walk), data_width, rng, step)
        for step in (0, 3)
    ]
    do_jobs(engine_of(block, data_width), jobs, rng, stalls=stalls)
