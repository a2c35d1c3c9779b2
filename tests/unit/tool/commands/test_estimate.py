"""`estimate`: layers in, costs out, in words and for scripts."""

import pytest

from diastole.commands.estimate import parse_phases, read_shapes
from diastole.files.layers import NamedLayer
from diastole.layers.networks import LISTS
from support.own_networks import write_networks

FAST = [part for name in ("x", "w", "dy") for part in ("--set", f"format.{name}=fast")]


@pytest.fixture
def shapes(tmp_path):
    path = tmp_path / "layers.csv"
    path.write_text("name,M,K,N,repeats\nfirst,64,48,40,2\nlast,9,9,9,\n")
    return str(path)


def test_for_scripts(diastole, shapes):
    result = diastole("estimate", "nano.toml", "--shapes", shapes, "--json")
    assert (result.code, result.err) == (0, [])
    record = result.json
    assert [(each["name"], each["phase"]) for each in record["layers"]] == [
        (name, phase) for name in ("first", "last") for phase in ("forward", "backward")
    ]
    first = record["layers"][0]
    assert (first["m"], first["k"], first["n"], first["repeats"]) == (64, 48, 40, 2)
    assert first["macs"] == 2 * 64 * 48 * 40
    assert first["utilisation"] == pytest.approx(
        first["macs"] / first["cycles"] / record["multipliers"]
    )
    assert first["dram_write_bytes"] == 2 * 64 * 40 * 4
    assert record["layers"][1]["order"] == "fused"
    for key in ("cycles", "macs", "dram_read_bytes", "dram_write_bytes"):
        assert record["total"][key] == sum(each[key] for each in record["layers"])


def test_for_people(diastole, shapes, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "roof.png"
    given = ("--shapes", shapes, "--phases", "dw,forward", "--batch", "2", "--out", str(picture))
    result = diastole("estimate", "nano.toml", *given)
    assert (result.code, result.err) == (0, [])
    lines = result.out.splitlines()
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["first", "dw", "128"], ["first", "forward", "128"],
        ["last", "dw", "18"], ["last", "forward", "18"],
    ]  # fmt: skip
    assert lines[5].startswith("all")
    assert lines[-2] == f"wrote {picture}"
    assert lines[-1].startswith("next: --over ")
    assert picture.stat().st_size > 1000


def test_a_list_that_we_have(diastole):
    result = diastole("estimate", "nano.toml", "--shapes", "dlrm", "--phases", "forward")
    assert result.code == 0
    lines = result.out.splitlines()
    assert [line.split()[0] for line in lines[1:9]] == [*"1234567", "all"]


@pytest.mark.parametrize("name", LISTS)
def test_layers_of_every_list(name):
    """A batch is rows of X, or products of their own where W is of the sample."""
    one, four = read_shapes(name, 1), read_shapes(name, 4)
    for a, b in zip(one, four, strict=True):
        assert a.k == b.k
        assert a.n == b.n
        assert 4 * a.m * a.repeats == b.m * b.repeats
    macs = sum(layer.m * layer.k * layer.n * layer.repeats for layer in one)
    assert macs > 1e8


def test_gpt_2_has_its_multiplications():
    """12 layers of 12 x 768^2 weights, scores of 1024 x 1024 x 768 twice, words of 50257."""
    macs = sum(each.m * each.k * each.n * each.repeats for each in read_shapes("gpt-2", 1))
    tokens, width = 1024, 768
    of_layer = 12 * tokens * width**2 + 2 * tokens**2 * width
    assert macs == 12 * of_layer + tokens * width * 50257


def test_llama_7b_has_its_parameters():
    """6.74 * 10^9 with the words that go in, which are no product; each of the weights is used once
    for every token."""
    layers = read_shapes("llama-7b", 1)
    weights = sum(each.k * each.n * each.repeats for each in layers if each.repeats % 1024)
    assert weights + 32000 * 4096 == pytest.approx(6.738e9, rel=1e-3)


def test_a_batch_of_a_file(shapes):
    assert read_shapes(shapes, 3) == [
        NamedLayer(name="first", m=192, k=48, n=40, repeats=2),
        NamedLayer(name="last", m=27, k=9, n=9),
    ]


def test_conversions_beside_products(diastole, shapes, tmp_path):
    """Counted in, but no points of the picture."""
    picture = tmp_path / "roof.svg"
    given = ("--shapes", shapes, "--phases", "forward,convert", "--out", str(picture))
    result = diastole("estimate", "nano.toml", *given)
    assert result.code == 0
    assert [line.split()[1:3] for line in result.out.splitlines()[1:5]] == [
        ["forward", "64"], ["convert", "X"], ["convert", "W"], ["convert", "dY"],
    ]  # fmt: skip
    assert picture.exists()


def test_rows_of_a_depthwise_convolution(diastole, tmp_path):
    """A product for each of 16 channels: X of 48 * 48 rows and 9 columns, one column of W. A note
    says so, in words and for scripts."""
    path = tmp_path / "topology.csv"
    path.write_text(
        "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, "
        "Num Filter, Strides,\ndw, 50, 50, 3, 3, 16, 1, 1,\nlast, 1, 1, 1, 1, 16, 1, 1,\n"
    )
    one = tmp_path / "one.csv"
    one.write_text("M,K,N,repeats\n2304,9,1,16\n")
    given = ("estimate", "nano.toml", "--phases", "forward", "--shapes")
    record = diastole(*given, str(path), "--json").json
    first, last = record["layers"]
    assert (first["m"], first["k"], first["n"], first["repeats"]) == (48 * 48, 9, 1, 16)
    assert (last["m"], last["k"], last["n"], last["repeats"]) == (1, 16, 1, 1)
    assert record["depthwise"] == ["dw"]
    assert first["cycles"] == diastole(*given, str(one), "--json").json["total"]["cycles"]
    note = (
        "depthwise layers, computed as a product for each channel (groups = 1 in the file "
        "makes a layer dense): dw"
    )
    assert note in diastole(*given, str(path)).out.splitlines()


def test_phases():
    assert parse_phases("dw, forward,dw") == ["dw", "forward"]


def test_widths(diastole, shapes):
    given = ("nano.toml", *FAST, "--shapes", shapes)
    result = diastole("estimate", *given, "--widths", "x=4,w=2,dy=4", "--json")
    assert (result.code, result.err) == (0, [])
    record = result.json
    assert record["widths"] == {"x": 4, "w": 2, "dy": 4}
    assert [each["passes"] for each in record["layers"]] == [2, 3, 2, 3]
    assert record["total"]["passes"] == pytest.approx(8 / 3)
    widest, all_two = (
        diastole("estimate", *given, *more, "--json").json for more in ((), ("--widths", "2"))
    )
    assert widest["widths"] == {"x": 4, "w": 4, "dy": 4}
    assert [each["passes"] for each in widest["layers"]] == [4] * 4
    one = diastole("estimate", *(text.replace("fast", "bfp2") for text in given), "--json").json
    assert one["widths"] == {"x": None, "w": None, "dy": None}
    assert all_two["total"] == one["total"]
    assert [each["cycles"] for each in all_two["layers"]] == [
        each["cycles"] for each in one["layers"]
    ]


def test_widths_for_people(diastole, shapes):
    given = ("nano.toml", "--set", "format.x=fast", "--set", "format.w=bfp2", "--set")
    result = diastole("estimate", *given, "format.dy=bfp2", "--shapes", shapes)
    lines = result.out.splitlines()
    assert lines[0].split()[-5:-2] == ["passes", "bound", "other"]
    assert "passes: pairs of planes that are multiplied, of x in 4 bits" in lines


def test_widths_of_many_machines(diastole, shapes):
    given = ("nano.toml", *FAST, "--shapes", shapes, "--over", "format.x=fast,bfp2")
    alone = diastole("estimate", *given[:-2], "--widths", "x=4", "--json").json
    found = diastole("estimate", *given, "--widths", "x=4", "--json").json["machines"]
    assert found[0]["cycles"] == alone["total"]["cycles"]
    assert found[1]["refused"] == [
        "--widths: format.x is bfp2, which has a single width; give only w, dy"
    ]


def test_many_machines(diastole, shapes):
    given = ("--shapes", shapes, "--over", "array.rows=1,2", "--over", "array.block=8,3")
    result = diastole("estimate", "nano.toml", *given)
    assert result.code == 0
    assert "step 4 of 4" in result.err[-1]
    lines = result.out.splitlines()
    assert lines[0].split()[:5] == ["array.rows", "array.block", "MACs", "KiB", "k"]
    assert [line.split()[:3] for line in lines[1:5]] == [
        ["1", "8", "128"], ["1", "3", "-"], ["2", "8", "256"], ["2", "3", "-"],
    ]  # fmt: skip
    assert "no such machine: array.block must be one of 1, 2, 4, 8, 16, 32, not 3" in lines
    assert [line.split()[:3] for line in lines[-3:-1]] == [["1", "8", "128"], ["2", "8", "256"]]
    record = diastole("estimate", "nano.toml", *given, "--json").json
    assert [each["set"]["array.rows"] for each in record["machines"]] == ["1", "1", "2", "2"]
    assert [each["pareto"] for each in record["machines"]] == [True, False, True, False]
    assert record["area"] == "cells_nand2"
    alone = diastole("estimate", "nano.toml", "--shapes", shapes, "--json").json
    assert record["machines"][2]["cycles"] == alone["total"]["cycles"]
    assert record["machines"][2]["scratchpad_kib"] == alone["scratchpad_kib"]


def test_a_picture_of_many_machines(diastole, shapes, tmp_path):
    pytest.importorskip("matplotlib")
    picture = tmp_path / "front.svg"
    given = ("--shapes", shapes, "--over", "array.rows=1,2", "--out", str(picture))
    result = diastole("estimate", "nano.toml", *given, "--clock", "100")
    assert result.code == 0
    assert result.out.splitlines()[-1] == f"wrote {picture}"
    assert picture.exists()


def test_at_a_clock(diastole, shapes):
    given = ("estimate", "nano.toml", "--shapes", shapes, "--clock", "62.5")
    record = diastole(*given, "--json").json
    assert record["clock_mhz"] == 62.5
    for each in (*record["layers"], record["total"]):
        assert each["seconds"] == pytest.approx(each["cycles"] / 62.5e6)
        assert each["tops"] == pytest.approx(2 * each["macs"] / each["seconds"] / 1e12)
        assert sum(each["shares"].values()) == pytest.approx(1)
    assert "at 62.5 MHz: " in diastole(*given).out
    step = diastole(*STEP, "--clock", "62.5", "--json").json
    assert step["seconds"] == pytest.approx(step["cycles"] / 62.5e6)
    machines = diastole(*given, "--over", "array.rows=1,2", "--json").json["machines"]
    assert machines[1]["seconds"] == pytest.approx(record["total"]["seconds"])


STEP = ("estimate", "nano.toml", "--set", "vector.enable=true", "--task", "digits")


def test_a_step_of_a_task(diastole):
    result = diastole(*STEP, "--json")
    assert result.code == 0
    assert sum(result.json["causes"].values()) == result.json["cycles"] > 10_000
    assert result.json["commands"][0]["opcode"] == "load"
    lines = diastole(*STEP).out.splitlines()
    assert sum(float(line.split()[-1].rstrip("%")) for line in lines[1:]) == pytest.approx(100)
    assert lines[0] == f"a step of digits: {result.json['cycles']:,} cycles"
    assert len(lines) == 1 + len(result.json["causes"])


GRAPH = ("--graph", "nets.py:numbers", "--inputs", "3")


def test_a_graph_by_layers(diastole, tmp_path):
    write_networks(tmp_path)
    words = ("estimate", "--preset", "pico", *GRAPH, "--batch", "16", "--samples", "100")
    record = diastole(*words, "--json").json
    assert [layer["shape"] for layer in record["layers"]] == [[3, 8], [8, 2], None]
    assert record["cycles_per_epoch"] == 6 * record["cycles"]
    text = diastole(*words, "--clock", "50").out
    assert f"a step of 16 samples with mse and sgd: {record['cycles']:,} cycles, " in text
    assert f"an epoch of 6 steps: {6 * record['cycles']:,} cycles, " in text


def test_few_samples_are_one_batch(diastole, tmp_path):
    write_networks(tmp_path)
    record = diastole("estimate", "--preset", "pico", *GRAPH, "--samples", "20", "--json").json
    assert (record["batch"], record["cycles_per_epoch"]) == (20, record["cycles"])


@pytest.mark.parametrize(
    "words, said",
    [
        (GRAPH[:2], "--graph needs --inputs, the shape of a sample, such as 8 or 1,28,28"),
        ((*GRAPH[:3], "3,x"),
         "--inputs must be integers in 1..16777215, such as 8 or 1,28,28, not 3,x"),
        ((*GRAPH, "--set", "vector.enable=false"),
         "--graph needs a machine with a vector unit: give --set vector.enable=true; train works"),
        ((*GRAPH, "--hidden", "3"), "--hidden does not work with --graph: leave --hidden out"),
        ((*GRAPH, "--samples", "20", "--batch", "32"),
         "--batch must be at most 20, the number of --samples, not 32"),
        ((*GRAPH, "--phases", "forward"), "--phases works only with --shapes, not with --graph"),
        (("--task", "digits", "--samples", "3"),
         "--samples works only with --graph: leave --samples out"),
        (("--graph", "nets.py:wide", "--inputs", "3"), "nets.py:wide: "),
    ],
)  # fmt: skip
def test_mistakes_of_a_graph(diastole, tmp_path, words, said):
    write_networks(tmp_path)
    result = diastole("estimate", "--preset", "pico", *words)
    assert result.code == 2
    assert result.err[0].startswith(f"diastole: error: {said}")
