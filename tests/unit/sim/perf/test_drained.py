"""Products whose results go to a chain."""

import pytest

from diastole_sim.perf import Memory, ModelledMachine, estimate
from diastole_sim.perf.drained import estimate_drained
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.nest import Nest
from diastole_sim.spec.stream_table import Kind
from support.vector_model import NUMERICS, modelled_vector, move, task_of

MACHINE = ModelledMachine.of(NUMERICS, rows=2, cols=2, data_width=128, memory=Memory.axi())
SHORT = Nest(t_blocks=2, chunk=2, keep="stationary")


def drained(instructions, *, cols=64, nest=SHORT, **options):
    program = [move(Source.S0, o=0), *[move(d=1) for _ in range(instructions - 1)]]
    task = task_of(program, inputs=[Kind.PRODUCT], outputs=[Kind.PANEL], cols=cols, of_product=True)
    vector = modelled_vector()
    return estimate_drained(MACHINE, vector, "forward", (64, cols, 64), task, nest=nest, **options)


def test_the_slower_of_both():
    """A chain of few instructions ends soon after the product, one of many takes its slots."""
    product = estimate(MACHINE, "forward", 64, 64, 64, SHORT)
    quick, slow = drained(1), drained(8)
    assert quick.product.slots == slow.product.slots == product.slots
    assert quick.chain.done == pytest.approx(product.cycles, rel=0.1)
    assert slow.chain.done > 64 * 8 * 8
    assert slow.chain.done - 64 * 8 * 8 < 420
    assert slow.stalled > quick.stalled


def test_shorter_tiles_begin_earlier():
    assert drained(3).chain.done < drained(3, nest=Nest(t_blocks=16)).chain.done


def test_it_waits_for_the_unit():
    now, later = drained(8), drained(8, unit_free=2000)
    assert 0 < now.chain.done - later.chain.done + 2000 < 400
    assert later.stalled > now.stalled


def test_every_block_once_in_the_order_of_the_tiles():
    wide = drained(2, cols=200, nest=Nest(t_blocks=2))
    assert wide.chain.done > 8 * 25 * 2 * 8
    assert wide.product.write_beats == 0


def test_sums_are_free_when_the_chain_has_taken_them():
    task = task_of(
        8 * [move(Source.S0, d=1)], inputs=[Kind.PRODUCT], rows=1024, cols=64, of_product=True
    )
    found = estimate_drained(MACHINE, modelled_vector(), "forward", (1024, 64, 8), task)
    assert found.product.idle["accumulator"] > 10_000


def test_what_a_chain_reads_comes_over_the_same_bus():
    found = []
    for inputs in ([Kind.PRODUCT], [Kind.PRODUCT, Kind.F32]):
        second = Instruction(op=MicroOp.MOV, a=Source.S0 + len(inputs) - 1, o=0)
        program = [move(Source.S0, d=1), second]
        task = task_of(program, inputs=inputs, outputs=[Kind.PANEL], of_product=True)
        drained_ = estimate_drained(
            MACHINE, modelled_vector(), "forward", (64, 64, 64), task, nest=SHORT
        )
        found.append(drained_.product.idle["load"])
    assert found[1] > found[0]


def test_an_image_waits_for_the_converter():
    task = task_of(
        [move(Source.S0, o=0)], inputs=[Kind.PRODUCT], outputs=[Kind.IMAGE], of_product=True
    )
    vector, sizes = modelled_vector(), (64, 64, 64)
    now, later = (
        estimate_drained(MACHINE, vector, "forward", sizes, task, converter_free=at).chain
        for at in (0, 5000)
    )
    assert now.done < 5000 < later.done


def test_an_image_in_patches_takes_what_the_product_does():
    """512 columns, of which a tile holds 64."""
    sizes, cols = (64, 512, 64), 512
    chains = []
    for output in (Kind.PANEL, Kind.IMAGE):
        task = task_of(
            [move(Source.S0, o=0)], inputs=[Kind.PRODUCT], outputs=[output], cols=cols,
            of_product=True,
        )  # fmt: skip
        nest = Nest(t_blocks=2, groups=4)
        found = estimate_drained(MACHINE, modelled_vector(), "forward", sizes, task, nest=nest)
        chains.append(found.chain)
    panel, image = chains
    assert panel.done <= image.done <= panel.done + 60
