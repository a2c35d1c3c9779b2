"""The gate of error messages: the transcripts of all refusals hold sentences."""

import pytest

from support.messages import TABLES, faults, figures, messages, plain
from support.prose import Figures

LONG = "array.rows must be " + "very " * 40 + "small"


def test_every_message_of_the_transcripts_is_a_sentence():
    found = messages(*TABLES)
    assert len(found) > 400
    assert [f"{each}: {fault}" for each in found for fault in faults(each)] == []


def test_few_words_of_the_messages_stand_for_a_noun():
    assert 0 < figures().vague <= 5


def test_figures_of_a_table(tmp_path):
    table = tmp_path / "table.txt"
    table.write_text(
        ">>> f(1)\nValueError: it must be 2\n$ diastole run\ndiastole: error: x is 3\n"
    )
    assert figures([table]) == Figures(vague=20.0)  # 1 of 5 words


@pytest.mark.parametrize(
    "message, rules",
    [
        ("f.toml: array.rows must be an integer in 1..64, not 0", []),
        ("no.toml: No such file or directory", []),
        ("line 2: the result is not a register", []),
        ("a kind of its own", ["the first sentence has no verb"]),
        ("--seed: of every draw; give a number", ["the first sentence has no verb"]),
        ("--out is there already: leave it", ["the message ends with it"]),
        (LONG, [f"a sentence has more than 40 words: {LONG}"]),
    ],
)
def test_rules_of_a_message(message, rules):
    assert faults(message) == rules


def test_kind_placeholders_and_hints_are_no_words_of_a_message():
    line = "diastole: error: --task must be x, not {value}; did you mean y?"
    assert plain(f"{line} (see diastole run --help)") == "--task must be x, not x"
    assert plain("ValueError: {name} must be 1") == "x must be 1"
