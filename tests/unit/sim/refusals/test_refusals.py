"""What the library refuses, by the tables of this folder: a call, and the error in full."""

from pathlib import Path

import pytest

from support.transcripts import answer, cases, matches


@pytest.mark.parametrize("refusal", cases(*Path(__file__).parent.glob("*.txt")))
def test_calls(refusal):
    for call, names, said in refusal.calls():
        found = answer(call, names)
        assert matches(said, found), f"{call}\n{found}\n{said}"
