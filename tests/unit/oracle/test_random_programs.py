"""Random chains: they are valid, use everything there is, and give something to compare."""

import random

import pytest

from oracle import vector_words as w
from oracle.vector_words import decoded
from support.random_programs import MEMORY_INPUTS, OUTPUTS, random_scene, tile_lines

NAN = 0x7FC00000


def scenes(count, seed=1, **options):
    rng = random.Random(seed)
    return [random_scene(rng, rng.choice((1, 2, 4, 8)), **options) for _ in range(count)]


@pytest.mark.parametrize("options", [{}, {"undefined": True}, {"split": False}])
def test_all_are_valid(options):
    for scene in scenes(300, **options):
        assert w.problems(scene.words, scene.block, scene.kinds) == []


def test_everything_is_used():
    some = scenes(300)
    each = [decoded(word) for scene in some for word in scene.words]
    assert {one.op for one in each} == set(w.OPERANDS)
    assert {source for one in each for source in one.sources.values()} == set(range(27))
    for name, values in {"when": 4, "fresh": 2, "keep": 2, "negate": 8}.items():
        assert {getattr(one, name) for one in each} == set(range(values)), name
    for name in ("turn_lanes", "turn_rows"):
        assert {getattr(one, name) for one in each} == set(range(4)), name
    kinds = {kind for scene in some for kind in scene.kinds[:4]}
    assert kinds == {*MEMORY_INPUTS, 0, w.KIND_PRODUCT}
    kinds = {kind for scene in some for kind in scene.kinds[4:]}
    assert kinds == {*OUTPUTS, 0, w.KIND_COLUMN, w.KIND_ROW}
    assert {scene.walk for scene in some} == {"rows", "columns", "tiles"}
    assert max(len(scene.words) for scene in some) == 32


def test_results_are_complete_and_say_something():
    """Every element inside is written, panels keep their size, few floats are NaN."""
    found = []
    for scene in scenes(150):
        result = scene.judged()
        for output, held in zip(scene.outputs, result.outputs, strict=True):
            if output and output.kind == w.KIND_F32:
                found += [each for row in held for each in row]
            elif output and output.kind in (w.KIND_ROW, w.KIND_COLUMN):
                found += held
        assert all(len(vector) == scene.block for vector in result.panel)
    assert None not in found
    assert found.count(NAN) < 0.2 * len(found)
    assert len(set(found)) > 0.15 * len(found)


def test_nothing_undefined_is_read(monkeypatch):
    """Registers that start with something else lead to the same."""
    from oracle.vector_program import Chain

    some = scenes(150, seed=2)
    before = [scene.judged() for scene in some]
    begin = Chain.__init__

    def other(self, *arguments):
        begin(self, *arguments)
        self.registers = [dict.fromkeys(self.slots, 0x40490FDB) for _ in range(16)]

    monkeypatch.setattr(Chain, "__init__", other)
    assert [scene.judged() for scene in some] == before
    some = scenes(50, seed=2, undefined=True)
    after = [scene.judged() for scene in some]
    monkeypatch.undo()
    assert [scene.judged() for scene in some] != after


def test_the_same_seed_gives_the_same():
    assert scenes(3) == scenes(3)
    assert scenes(3) != scenes(3, seed=2)


def test_tiles():
    """3 x 3 blocks in tiles of 2 x 2: corner tiles are smaller; a line is a block row of a tile."""
    lines = tile_lines((5, 6), 2, (2, 2), down=False)
    assert lines == [
        [(0, 0), (0, 1)], [(1, 0), (1, 1)], [(0, 2)], [(1, 2)], [(2, 0), (2, 1)], [(2, 2)]
    ]  # fmt: skip
    down = tile_lines((5, 6), 2, (2, 2), down=True)
    assert down == [lines[n] for n in (0, 1, 4, 2, 3, 5)]
