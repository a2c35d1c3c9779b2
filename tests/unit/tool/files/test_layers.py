"""Lists of layers: what is read, and every mistake with its line and column."""

import pytest

from diastole.errors import BadInput
from diastole.files.layers import ACCEPTED, NamedLayer, read_layers


def written(tmp_path, *lines):
    path = tmp_path / "layers.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_products(tmp_path):
    """Columns in any order and case, spaces, empty lines and cells beside the last."""
    path = written(
        tmp_path, "", " K,Layer ,m, N ,Repeats,", "3, first ,5,7,,", "", "30,,50,70, 4 ,"
    )
    assert read_layers(path) == [
        NamedLayer(name="first", m=5, k=3, n=7),
        NamedLayer(name="line 5", m=50, k=30, n=70, repeats=4),
    ]


def test_what_a_spreadsheet_writes(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_bytes(b"\xef\xbb\xbfname,M,K,N\r\n\xc3\xa4,1,2,3\r\n")
    assert read_layers(path) == [NamedLayer(name="\u00e4", m=1, k=2, n=3)]


TOPOLOGY = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "
    "Strides,"
)


@pytest.mark.parametrize(
    "line, m, k, n",
    [
        ("Conv1, 224, 224, 7, 7, 3, 64, 2,", 109 * 109, 147, 64),
        ("FC, 1, 1, 1, 1, 2048, 1000, 1,", 1, 2048, 1000),
        ("odd, 9, 6, 2, 3, 5, 4, 3,", 3 * 2, 30, 4),
    ],
)
def test_convolutions(tmp_path, line, m, k, n):
    (layer,) = read_layers(written(tmp_path, TOPOLOGY, line))
    assert (layer.m, layer.k, layer.n) == (m, k, n)
    assert layer.name == line.split(",")[0]


@pytest.mark.parametrize(
    "lines, problems",
    [
        (["M,K,N", "0,2,3"], ["line 2: m must be an integer in 1..16777215, not 0"]),
        (["M,K,N", "1,x,3"], ["line 2: k must be an integer in 1..16777215, not x"]),
        (["M,K,N", "1,2"], ["line 2: n must be an integer in 1..16777215, not nothing"]),
        (["M,K,N", "1,2,16777216"], ["line 2: n must be an integer in 1..16777215, not 16777216"]),
        (["M,K,N", "1,2,-3"], ["line 2: n must be an integer in 1..16777215, not -3"]),
        (
            ["M,K,N,repeats", "0,2.5,3,1", "1,1,1,1", "1,1,1,0"],
            [
                "line 2: m must be an integer in 1..16777215, not 0",
                "line 2: k must be an integer in 1..16777215, not 2.5",
                "line 4: repeats must be an integer in 1..1048576, not 0",
            ],
        ),
        (["M,K", "1,2"], [f"line 1: its columns are m, k; it needs {ACCEPTED}"]),
        (["a"], [f"line 1: its columns are a; it needs {ACCEPTED}"]),
        (["M,K,N"], ["has no layer below line 1"]),
        (["", ""], [f"is empty; {ACCEPTED}"]),
        (
            [TOPOLOGY, "c, 5, 5, 7, 1, 3, 4, 1"],
            ["line 2: filter height must be at most that of the ifmap, 5, not 7"],
        ),
        (
            [TOPOLOGY, "c, 5000, 5000, 1, 1, 3, 4, 1"],
            ["line 2: ifmap height makes a side of 25000000, at most 16777215 is possible"],
        ),
        (
            [TOPOLOGY, "c, 5, 5, 5, 5, 999999, 4, 1"],
            ["line 2: channels makes a side of 24999975, at most 16777215 is possible"],
        ),
    ],
)
def test_mistakes(tmp_path, lines, problems):
    path = written(tmp_path, *lines)
    with pytest.raises(BadInput) as caught:
        read_layers(path)
    assert caught.value.problems == tuple(f"{path}: {text}" for text in problems)


def test_no_text(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_bytes(b"M,K,N\n\xff\xfe,1,1\n")
    with pytest.raises(BadInput, match="is no CSV file"):
        read_layers(path)
