"""A conversion whose blocks a chain gives."""

from diastole_sim.perf.streamed_conversion import StreamedConversion
from diastole_sim.spec.stream_table import Descriptor, Kind
from support.vector_model import modelled_vector, move, task_of


def conversion(rows, cols):
    task = task_of([move(o=0)], outputs=[Kind.IMAGE], rows=rows, cols=cols)
    image = Descriptor(kind=Kind.IMAGE)
    return StreamedConversion(modelled_vector(), image, task, 0), list(task.blocks())


def test_it_ends_when_its_last_block_has_gone_through():
    ends = []
    for last in (1000, 5000):
        fed, blocks = conversion(16, 64)
        for number, block in enumerate(blocks):
            fed.block(block, last if number == len(blocks) - 1 else 16 * number)
        ends.append(fed.end())
        assert fed.end() == ends[-1]
        assert 0 < fed.last_response - fed.end() < 30
    assert ends[1] - ends[0] == 4000
    assert 1000 < ends[0] < 1200


def test_a_tile_waits_for_a_place():
    fed, blocks = conversion(64, 64)
    before = fed.free
    for number, block in enumerate(blocks[:24]):
        fed.block(block, 16 * number)
    assert before < 0 < fed.free


def test_patches_end_as_the_whole_does():
    """A row of blocks of 64 columns is a tile; whole rows of three of them, or each by itself."""
    ends = []
    for wide in (24, 8):
        fed, blocks = conversion(32, 192)
        patches = [blocks] if wide == 24 else [
            [each._replace(first=each.j % 8 == 0, last=each.j % 8 == 7) for each in blocks
             if left <= each.j < left + 8]
            for left in (0, 8, 16)
        ]  # fmt: skip
        for number, block in enumerate(block for patch in patches for block in patch):
            fed.block(block, 16 * number)
        ends.append(fed.end())
    whole, cut = ends
    assert abs(whole - cut) <= 20
    assert whole > 16 * 4 * 24
