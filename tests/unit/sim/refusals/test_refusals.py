"""What the library refuses, by the tables of this folder: a call, and the error in full."""

from pathlib import Path

import pytest

from support.transcripts import answer, matches, refusals

TABLES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize(
    "refusal",
    [
        pytest.param(refusal, id=f"{path.stem}-{refusal.line}")
        for path in TABLES
        for refusal in refusals(path)
    ],
)
def test_refusals(refusal):
    for call, names, said in refusal.calls():
        found = answer(call, names)
        assert matches(said, found), f"{call}\n{found}\n{said}"
