"""Lists of layers: what is read, and every mistake with its line and column."""

import pytest

from diastole.errors import BadInput
from diastole.files.layers import NamedLayer, read_layers


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


def test_columns_of_a_batch(tmp_path):
    """M is that of a sample times the batch; of a convolution too."""
    path = written(tmp_path, "M,K,N,Batch", "437,3,5,2", "437,3,5,")
    assert [layer.m for layer in read_layers(path)] == [874, 437]
    path = written(tmp_path, TOPOLOGY + "batch size", "a, 9, 9, 2, 2, 3, 8, 1, 4")
    assert [(layer.m, layer.k, layer.n) for layer in read_layers(path)] == [(256, 12, 8)]
    path = written(tmp_path, "M,K,N", "437,3,5")
    assert [layer.m for layer in read_layers(path, 3)] == [1311]


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


def test_two_strides(tmp_path):
    """Down and across: of 9 x 9 and a filter of 3 x 2, 4 rows of 3 places."""
    heading = TOPOLOGY.replace("Strides,", "Stride Height, Stride Width")
    (layer,) = read_layers(written(tmp_path, heading, "a, 9, 9, 3, 2, 3, 8, 2, 3"))
    assert (layer.m, layer.k, layer.n) == (12, 18, 8)


def test_other_headings_of_scale_sim(tmp_path):
    """Some files call the height the width too, or say channel, num filters and batch size."""
    twice = TOPOLOGY.replace("IFMAP Height", "IFMAP Width")
    (layer,) = read_layers(written(tmp_path, twice, "a, 9, 6, 2, 3, 5, 4, 3,"))
    assert (layer.m, layer.k, layer.n) == (3 * 2, 30, 4)
    other = "Layer,Ifmap height,ifmap width,filter height,filter width,channel,num filters,stride"
    (layer,) = read_layers(written(tmp_path, other, "a, 9, 6, 2, 3, 5, 4, 3"))
    assert (layer.m, layer.k, layer.n) == (3 * 2, 30, 4)


@pytest.mark.parametrize(
    "heading, line, found",
    [
        # m, k, n, repeats, and whether the row was taken for a depthwise convolution.
        (TOPOLOGY, "a, 50, 50, 3, 3, 16, 1, 1", (2304, 9, 1, 16, True)),
        (TOPOLOGY, "DP_a, 50, 50, 3, 3, 16, 2, 1", (2304, 9, 2, 16, True)),
        (TOPOLOGY, "DPN_a, 50, 50, 3, 3, 16, 2, 1", (2304, 144, 2, 1, False)),
        (TOPOLOGY, "a, 1, 1, 1, 1, 256, 1, 1", (1, 256, 1, 1, False)),
        (TOPOLOGY, "a, 50, 50, 3, 3, 1, 1, 1", (2304, 9, 1, 1, False)),
        (TOPOLOGY + "groups", "a, 50, 50, 3, 3, 16, 1, 1, 1", (2304, 144, 1, 1, False)),
        (TOPOLOGY + "groups", "a, 50, 50, 3, 3, 16, 32, 1, 4", (2304, 36, 8, 4, False)),
        (TOPOLOGY + "groups", "a, 50, 50, 3, 3, 16, 16, 1, 16", (2304, 9, 1, 16, False)),
        (TOPOLOGY + "groups,repeats", "a, 50, 50, 3, 3, 16, 1, 1, ,3", (2304, 9, 1, 48, True)),
        (TOPOLOGY + "batch", "a, 50, 50, 3, 3, 16, 1, 1, 2", (4608, 9, 1, 16, True)),
    ],
)
def test_groups_of_channels(tmp_path, heading, line, found):
    (layer,) = read_layers(written(tmp_path, heading, line))
    assert (layer.m, layer.k, layer.n, layer.repeats, layer.depthwise) == found


PRODUCTS_READ = "with m the file may have m, k, n, name, repeats, batch"
TOPOLOGY_READ = (
    "with ifmap height the file may have ifmap height, ifmap width, filter height, filter width, "
    "channels, num filter, strides, groups, name, repeats, batch"
)


@pytest.mark.parametrize(
    "lines, problems",
    [
        (
            ["M,K,N,Padding", "1,2,3,4"],
            ["line 1: the column padding is not read: leave the column out; " + PRODUCTS_READ],
        ),
        (
            [TOPOLOGY + "Stride width", "a, 5, 5, 3, 3, 3, 4, 1, 2"],
            ["line 1: the column stride width is not read: leave the column out; " + TOPOLOGY_READ],
        ),
        (
            ["name,M,K,N,strides,M", "a,1,2,3,4,5"],
            [
                "line 1: the column m appears 2 times: keep one",
                "line 1: the column strides is not read: leave the column out; " + PRODUCTS_READ,
            ],
        ),
        (
            ["name,Layer,M,K,N", "a,b,1,2,3"],
            ["line 1: the columns name and layer all mean name: keep one"],
        ),
        (
            ["layer,Layer,M,K,N", "a,b,1,2,3"],
            ["line 1: the column layer appears 2 times: keep one"],
        ),
        (
            ["M,K,N", "\u0663,1_0,+4"],
            [
                f"line 2: {column} must be an integer in 1..16777215, not {text}"
                for column, text in (("m", "\u0663"), ("k", "1_0"), ("n", "+4"))
            ],
        ),
        (
            ["M,K,N", "1,2,3", "1,2,3,4", "1,2,3,,5"],
            [
                "line 3: cell 4 holds 4, but has no heading",
                "line 4: cell 5 holds 5, but has no heading",
            ],
        ),
        (["M,,K,N", "1,7,2,3"], ["line 2: cell 2 holds 7, but has no heading"]),
        (
            [TOPOLOGY, "a, 5, 5, 3, 3, 3, 4, 1, 2"],
            ["line 2: cell 9 holds 2, but has no heading"],
        ),
        (["M,K,N,Batch", "1,2,3,0"], ["line 2: batch must be an integer in 1..16777215, not 0"]),
        (
            ["M,K,N,Batch", "9000000,2,3,2"],
            [
                (
                    "line 2: m makes a side of 18000000 with a batch of 2, but at most 16777215 "
                    "is possible"
                )
            ],
        ),
        (
            [TOPOLOGY + "groups", "a, 5, 5, 3, 3, 6, 8, 1, 3"],
            ["line 2: groups must divide 6 channels and 8 filters, not 3"],
        ),
        (
            ["M,K,N", f"{'1' * 5000},2,3"],
            [f"line 2: m must be an integer in 1..16777215, not {'1' * 57}..."],
        ),
    ],
)
def test_nothing_is_left_unread(tmp_path, lines, problems):
    """Every value of a file is used, or the file is refused."""
    path = written(tmp_path, *lines)
    with pytest.raises(BadInput) as caught:
        read_layers(path)
    assert caught.value.problems == tuple(f"{path}: {text}" for text in problems)
