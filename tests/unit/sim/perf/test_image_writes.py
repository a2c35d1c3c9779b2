"""What a conversion writes, cycle by cycle on paper: at 64 bits a group of 8 blocks of 8 x 8 x 3
bits is a beat of exponents and 24 of elements; a response comes 23 cycles after a burst."""

from collections import deque

import pytest

from diastole_sim.perf import Memory
from diastole_sim.perf.image_writes import ImageWrites
from diastole_sim.perf.modelled_converter import ModelledConverter
from support.numerics import make_numerics

NUMERICS = make_numerics(block=8, formats="fast", widths=[2, 4, 8])
ANSWER = 23


def writes_of(width, rows=16, cols=192, numerics=NUMERICS):
    converter = ModelledConverter(numerics=numerics, tensor_class="x", data_width=64, width=width)
    return ImageWrites(converter, Memory.axi(20), rows, cols)


def test_a_group():
    """8 bytes come from 100 on; the request goes in 108, the exponents in 109, and the elements in
    110 to 133."""
    writes = writes_of(2)
    assert writes.group(100, 0, 0) == (108, 110)
    assert (writes.write, writes.byte, writes.beat) == (134, 108, 109)
    assert writes.responses == deque([134 + ANSWER])
    # The next one's exponents wait for it: another request, in 134.
    assert writes.group(110, 0, 1) == (118, 136)


@pytest.mark.parametrize("width, planes", [(4, 2), (8, 4)])
def test_planes_follow_with_their_exponents(width, planes):
    """A request, a beat of exponents and 24 of elements for each; what is kept with the first one
    is the converter's no longer."""
    writes = writes_of(width)
    assert writes.group(100, 0, 0) == (108, 110)
    assert writes.write == 134 + (planes - 1) * 26
    # 6 groups and 1 + 3 beats of maxima are 154 from plane to plane: 26, 52 and 14 behind
    # multiples of 64; so the third one's burst is two, of 12 beats and of 13.
    ends = {2: [134, 160], 4: [134, 160, 160 + 1 + 12, 186, 212]}[planes]
    assert [response - ANSWER for response in writes.responses] == ends


def test_a_burst_ends_at_64_beats():
    """Group 2 of an image begins at beat 50: 14 beats, then 11."""
    writes = writes_of(4)
    writes.group(100, 0, 2)
    first = [134 - 25 + 14, 134]
    assert [response - ANSWER for response in writes.responses] == [*first, 160]


@pytest.mark.parametrize("width, number, ends", [(2, 2, [134]), (4, 63, [134, 160])])
def test_a_burst_that_goes_on(width, number, ends):
    """Of one plane, where bursts are too few for it to count; and one that ends at a multiple."""
    writes = writes_of(width)
    writes.group(100, 0, number)
    assert [response - ANSWER for response in writes.responses] == ends


def test_so_many_bursts_lack_a_response():
    """16: the next one's first beat goes when the oldest is answered."""
    writes = writes_of(2)
    writes.responses = deque([1000 + number for number in range(16)])
    assert writes.group(100, 0, 0) == (108, 1000)
    assert writes.write == 1024
    assert list(writes.responses)[:2] == [1001, 1002]
    assert len(writes.responses) == 16
    writes.packed = 7
    writes.drain(1, last=False)
    assert writes.write_maxima(writes.maxima) == 1025  # by then the second one is
    assert writes.write == 1026


def test_a_split_burst_waits_too():
    """16 lack a response, which come in 500, but the second one in 900: 14 beats from 499 on, the
    exponents among them, then 11 from 899 on; the next plane's go behind a request."""
    writes = writes_of(4)
    writes.responses = deque([500, 900, *[500] * 14])
    assert writes.group(100, 0, 2) == (108, 500)
    ends = [499 + 14, 899 + 11, 899 + 11 + 1 + 25]
    assert [response - ANSWER for response in list(writes.responses)[-3:]] == ends
    assert writes.write == ends[-1]


def test_maxima_go_to_every_plane():
    """Two cycles a beat and plane; a beat has 8."""
    for width, cycles in ((2, 2), (4, 4), (8, 8)):
        writes = writes_of(width)
        writes.begin_at(50)
        writes.drain(8, last=False)
        assert writes.maxima == 50 + 3 + 8
        assert writes.write_maxima(writes.maxima) == 61 + cycles - 1
        assert (writes.write, writes.maxima) == (61 + cycles, None)


def test_all_of_it_comes_later():
    for busy in (False, True):
        writes, same = writes_of(4), writes_of(4)
        for each in (writes, same):
            each.group(100, 0, 0)
            if busy:
                each.drain(8, last=False)
        times = writes.times
        writes.later(1000)
        assert writes.times == [time + 1000 for time in times]
        assert len(times) == 5 + busy
        assert writes.group(1200, 0, 1) == tuple(1000 + each for each in same.group(200, 0, 1))
        assert writes.times == [time + 1000 for time in same.times]


def test_where_groups_begin_counts_where_they_are_many():
    assert list(writes_of(4).phases((3, 5))) == [75 % 64, 125 % 64]
    assert list(writes_of(2).phases((3, 5))) == []


def test_headers_come_first():
    """One for each copy."""
    numerics = make_numerics(block=8, formats="nvfp4")
    assert writes_of(None, numerics=numerics).write == 8
