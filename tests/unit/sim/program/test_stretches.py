"""Test the rows that a host sends to memory, and the addresses that move with the rows."""

import numpy as np

from diastole_sim.program.stretches import TrainingStretches
from diastole_sim.spec.stream_table import DESCRIPTOR_BYTES, Descriptor, Kind


def test_rows_of_a_stretch():
    rows = np.arange(20, dtype=np.uint8).reshape(5, 4)
    order = np.array([3, 1, 3]), np.array([0])
    sent = TrainingStretches(order=order, tensors={"a": rows, "b": rows + 100}, steps=3)
    found = dict(sent.of(0))
    assert found["a"].tolist() == [*range(12, 16), *range(4, 8), *range(12, 16)]
    assert found["b"].tolist() == [100 + each for each in found["a"]]
    assert dict(sent.of(1))["a"].tolist() == [0, 1, 2, 3]


def test_steps_of_a_stretch():
    sent = TrainingStretches(order=(), tensors={}, steps=3)
    assert [sent.number(step) for step in range(7)] == [0, 0, 0, 1, 1, 1, 2]
    assert [sent.end(step) for step in range(7)] == [3, 3, 3, 6, 6, 6, 9]


def test_rows_and_addresses_of_steps():
    """The machine finds the row of a step in memory, also where an address is below zero."""
    lists = {"labels": np.arange(14, dtype=np.uint8).reshape(7, 2)}
    entries = [
        Descriptor(kind=Kind.LABELS, address=64, per_step=1, offset=32),
        Descriptor(kind=Kind.F32, address=4096, pitch=64),
        Descriptor(kind=Kind.LABELS, address=2048, per_step=1, offset=16),
    ]
    table = np.frombuffer(b"".join(entry.encode() for entry in entries), np.uint8)
    addresses = tuple(
        (number * DESCRIPTOR_BYTES, each.offset)
        for number, each in enumerate(entries)
        if each.per_step
    )
    sent = TrainingStretches(
        order=(np.array([], np.int64),) * 3,
        tensors={},
        steps=3,
        by_step=lists,
        tables={"table": table},
        addresses={"table": addresses},
    )
    for number, rows in enumerate(([0, 1, 2, 3, 4, 5], [6, 7, 8, 9, 10, 11], [12, 13])):
        found = dict(sent.of(number))
        assert found["labels"].tolist() == rows
        moved = found["table"].tobytes()
        for place, entry in enumerate(entries):
            at = place * DESCRIPTOR_BYTES
            other = Descriptor.decode(moved[at : at + DESCRIPTOR_BYTES])
            for step in range(3 * number, 3 * number + 3):
                inside = (step - 3 * number) * entry.offset if entry.per_step else 0
                assert other.at_step(step) == entry.address + inside
    assert table.tobytes() == b"".join(entry.encode() for entry in entries)
