"""Names for those who program in C: fields where the oracle's table has them."""

import random
from dataclasses import replace

from diastole_sim.spec.limits import Limits, VectorLimits
from diastole_sim.spec.publish_programs import instruction_names, table_names
from oracle import vector_words

NAMES = {name: value for name, value, _ in instruction_names()}


def value_at(word, field):
    """A field of 64 bits, read as a C program does."""
    at = {name: NAMES[f"INSTRUCTION_{field}_{name}"] for name in ("WORD", "LOW", "BITS")}
    return (word >> (32 * at["WORD"] + at["LOW"])) & ((1 << at["BITS"]) - 1)


def test_an_instruction_is_read_by_its_names():
    draw = random.Random(1)
    for _ in range(50):
        word = draw.getrandbits(64)
        wanted = vars(vector_words.decoded(word))
        signs = {f"negate_{each}": wanted["negate"] >> n & 1 for n, each in enumerate("abc")}
        wanted = signs | {name: wanted[name] for name in wanted if name not in ("negate", "rest")}
        assert {name: value_at(word, name.upper()) for name in wanted} == wanted
    assert NAMES["INSTRUCTION_BYTES"] == 8


def test_names_are_different_and_identifiers():
    found = [name for name, _, _ in instruction_names()]
    assert len(found) == len(set(found))
    assert all(name.isidentifier() and name.isupper() for name in found)


def test_words_of_a_scale_slot():
    """Two and the history on a machine with tensor scales, one on others."""
    limits = Limits(block=4, headroom=14, data_width=64, vector=VectorLimits(panel_vectors=64))
    named = {}
    for words in (1, 6):
        found = table_names(replace(limits, slot_words=words))
        named[words] = {name: value for name, value, _ in found if name.startswith("SLOT_")}
    assert named[1] == {"SLOT_WORDS": 1}
    assert named[6] == {"SLOT_WORDS": 6, "SLOT_LARGEST": 0, "SLOT_STEP": 1, "SLOT_BEFORE": 2}
