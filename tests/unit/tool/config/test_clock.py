"""The keys of fast machines: no preset has them."""

import pytest

from diastole.config.clock import CLOCK_KEYS, as_overrides, clock_keys
from diastole.config.file import from_document
from diastole.config.presets import PRESETS


def test_words():
    assert as_overrides(CLOCK_KEYS) == ["cell.pipeline=full", "memory.output_register=true"]
    assert as_overrides({"a": False}) == ["a=false"]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_have_none_of_them(name):
    plain = {"cell.pipeline": "none", "memory.output_register": False}
    assert clock_keys(PRESETS[name]) == plain
    fast = from_document(PRESETS[name].to_dict(), as_overrides(CLOCK_KEYS))
    assert clock_keys(fast) == CLOCK_KEYS
