"""Samples of users: what is read, and which sample and column of a mistake is named."""

import re

import numpy as np
import pytest

from diastole.errors import BadInput
from diastole.files import data_tables
from diastole.files.bundled_data import BUNDLED, bundled_table
from diastole.files.data_tables import FEWEST, read_inputs, read_table
from support.texts import exactly

ROWS = [(f"{n}", f"{n / 4 - 1}", f"{n * n}", "yes" if n % 3 else "no") for n in range(12)]
HEADER = ("age", "size", "price", "sold")


@pytest.fixture
def table(tmp_path):
    def write(rows=ROWS, header=HEADER, name="t.csv"):
        lines = [",".join(each) for each in ([header] if header else []) + list(rows)]
        path = tmp_path / name
        path.write_text("\n".join(lines) + "\n")
        return path

    return write


def test_numbers_of_a_csv_file(table):
    found = read_table(table([row[:3] for row in ROWS], HEADER[:3]), labels=False)
    assert (found.features, found.outputs, found.classes) == (("age", "size"), ("price",), None)
    assert found.inputs.dtype == found.targets.dtype == np.float32
    np.testing.assert_array_equal(found.inputs[5], [5, 0.25])
    np.testing.assert_array_equal(found.targets[:, 0], np.arange(12) ** 2)


def test_chosen_columns(table):
    found = read_table(table([row[:3] for row in ROWS], HEADER[:3]), labels=False,
                       outputs=["size", "age"])  # fmt: skip
    assert (found.features, found.outputs) == (("price",), ("size", "age"))
    np.testing.assert_array_equal(found.targets[3], [-0.25, 3])


def test_names_of_classes(table):
    found = read_table(table(), labels=True)
    assert found.classes == ("no", "yes")
    assert found.targets.tolist() == [int(n % 3 > 0) for n in range(12)]


def test_whole_numbers_as_classes_are_in_their_order(table):
    rows = [(f"{n}", f"{10 - n % 3}") for n in range(12)]
    found = read_table(table(rows, ("x", "class")), labels=True)
    assert found.classes == ("8", "9", "10")
    assert found.targets.tolist() == [2 - n % 3 for n in range(12)]


def test_known_classes_keep_their_numbers(table):
    found = read_table(table(), labels=True, classes=("yes", "maybe", "no"))
    assert set(found.targets.tolist()) == {0, 2}
    with pytest.raises(BadInput) as caught:
        read_table(table(), labels=True, classes=("yes", "maybe"))
    assert caught.value.problems[0].endswith(
        "t.csv, line 2: the class must be one of yes, maybe, not no"
    )


def test_a_csv_file_without_a_header(table):
    found = read_table(table([row[:3] for row in ROWS], None), labels=False)
    assert (found.features, found.outputs) == (("0", "1"), ("2",))
    assert len(found.inputs) == 12


def test_inputs_alone_are_found_by_name(table):
    path = table()
    found = read_inputs(path, ("size", "age"))
    np.testing.assert_array_equal(found.inputs[7], [0.75, 7])
    assert found.targets is None
    plain = table([row[:2] for row in ROWS], None, "plain.csv")
    np.testing.assert_array_equal(read_inputs(plain, ("age", "size")).inputs[7], [7, 0.75])
    with pytest.raises(BadInput, match="columns age, weight of the network, but has the columns"):
        read_inputs(path, ("age", "weight"))


MISTAKES = {
    "text": (lambda rows: [*rows[:2], ("x", *rows[2][1:]), *rows[3:]],
             "{path}, line 4, column age: must be a finite number, not x"),
    "nothing": (lambda rows: [*rows[:2], ("", *rows[2][1:]), *rows[3:]],
                "{path}, line 4, column age: must be a finite number, not \"\""),
    "nan": (lambda rows: [("nan", *rows[0][1:]), *rows[1:]],
            "{path}, line 2, column age: must be a finite number, not nan"),
    "large": (lambda rows: [("1e39", *rows[0][1:]), *rows[1:]],
              "{path}, line 2, column age: must be a finite number, not 1e39"),
    "short": (lambda rows: [*rows[:1], rows[1][:3], *rows[2:]],
              "{path}, line 3: has 3 values, but the file has 4 columns"),
    "few": (lambda rows: rows[: FEWEST - 1],
            "{path}: at least 10 samples are needed, but there are 9"),
    "one class": (lambda rows: [(*row[:3], "yes") for row in rows],
                  "{path}: at least two classes are needed, but all are yes"),
}  # fmt: skip


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_of_a_csv_file(name, table):
    change, said = MISTAKES[name]
    path = table(change(list(ROWS)))
    with pytest.raises(BadInput) as caught:
        read_table(path, labels=True)
    assert caught.value.problems[0] == said.format(path=path)


def test_too_many_classes(table, monkeypatch):
    monkeypatch.setattr(data_tables, "MAX_CLASSES", 2)
    path = table([(f"{n}", f"{n % 3}") for n in range(12)], ("x", "class"))
    text = f"{path}: at most 2 classes are possible, not 3: for numbers to learn, give --loss mse"
    with pytest.raises(BadInput, match=exactly(text)):
        read_table(path, labels=True)


def test_many_mistakes_are_counted(table):
    path = table([("x", *row[1:]) for row in ROWS])
    with pytest.raises(BadInput) as caught:
        read_table(path, labels=True)
    assert len(caught.value.problems) == 6
    assert caught.value.problems[-1] == "and 7 more of this kind"


@pytest.mark.parametrize(
    "content, said",
    [
        (b"", "the file is empty: write a row for each sample"),
        (b"\xff\xfe", "is not a text in UTF-8: save the file in UTF-8"),
        (b"a,a\n1,2\n", "two columns have the name a: rename one of them"),
        (b'a,"b\n1,2\n', "is not a CSV file: unexpected end of data"),
    ],
)
def test_files_that_are_no_tables(content, said, tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(content)
    with pytest.raises(BadInput, match=exactly(f"{path}: {said}")):
        read_table(path, labels=False)


def test_arrays_and_folders(tmp_path, np_rng):
    """An image keeps its shape."""
    inputs = np_rng.normal(size=(12, 2, 3)).astype(np.float32)
    labels = np.arange(12) % 4 + 3
    np.savez(tmp_path / "a.npz", inputs=inputs, labels=labels)
    folder = tmp_path / "folder"
    folder.mkdir()
    np.save(folder / "inputs.npy", inputs)
    np.save(folder / "targets.npy", labels)
    for path in (tmp_path / "a.npz", folder):
        found = read_table(path, labels=True)
        np.testing.assert_array_equal(found.inputs, inputs)
        assert found.targets.tolist() == (labels - 3).tolist()
        assert found.classes == ("3", "4", "5", "6")
        assert len(found.features) == 6
        assert read_table(path, labels=False).targets.shape == (12, 1)


def test_arrays_that_are_no_samples(tmp_path):
    inputs = np.zeros((12, 2))
    for arrays, said in (
        ({}, "the array inputs (samples x features) is needed, but there is nothing"),
        ({"inputs": inputs}, "the arrays inputs and targets are needed, but there is inputs"),
        ({"inputs": inputs[0], "targets": inputs},
         "inputs must be samples x features, not of shape (2,)"),
        ({"inputs": inputs, "targets": inputs[:3]}, "targets has 3 samples, but inputs has 12"),
        ({"inputs": np.full((12, 2), [np.nan, 0]), "targets": inputs},
         "inputs must be finite numbers in the range of float32, but inputs[0, 0] is nan"),
        ({"inputs": np.full((12, 1), "x"), "targets": inputs}, "inputs must be numbers, not <U1"),
    ):  # fmt: skip
        path = tmp_path / "a.npz"
        np.savez(path, **arrays)
        with pytest.raises(BadInput, match=exactly(f"{path}: {said}")):
            read_table(path, labels=False)


@pytest.mark.parametrize("name", BUNDLED)
def test_bundled_data(name):
    found = bundled_table(name, labels=name != "diabetes")
    assert len(found.inputs) == len(found.targets) > 100
    assert found.inputs.shape[1] == len(found.features)
    with pytest.raises(BadInput, match=f"the targets of {name} are"):
        bundled_table(name, labels=name == "diabetes")


def test_columns_of_a_network_are_found_by_name(table):
    """Whatever their order, and beside further columns."""
    rows = [(row[2], "?", row[1], row[0]) for row in ROWS]
    path = table(rows, ("price", "more", "size", "age"))
    found = read_table(path, labels=False, outputs=["price"], features=["age", "size"])
    np.testing.assert_array_equal(found.inputs[5], [5, 0.25])
    np.testing.assert_array_equal(found.targets[5], [25])
    with pytest.raises(BadInput, match=r"price, more, size, age, without weight$"):
        read_table(path, labels=False, outputs=["price"], features=["age", "weight"])


@pytest.mark.parametrize(
    "texts, classes",
    [
        (("2", "01", "1"), ("01", "1", "2")),  # two names of a number are two classes
        (("3", "-1", "0"), ("-1", "0", "3")),
        (("10", "9", "b"), ("10", "9", "b")),
    ],
)
def test_the_order_of_classes(texts, classes, table):
    rows = [(f"{n}", texts[n % 3]) for n in range(12)]
    found = read_table(table(rows, ("x", "class")), labels=True)
    assert found.classes == classes
    assert [found.classes[each] for each in found.targets[:3]] == list(texts)


def test_an_empty_class(table):
    rows = [(f"{n}", "a" if n else "") for n in range(12)]
    with pytest.raises(BadInput, match="line 2: the class is empty"):
        read_table(table(rows, ("x", "class")), labels=True)


def test_other_separators_are_guessed(table):
    path = table([("1;2",)] * 12, ("a;b",))
    with pytest.raises(BadInput, match="the columns must be separated by commas"):
        read_table(path, labels=False)


def test_only_names_of_columns(table):
    with pytest.raises(BadInput, match="the file has no samples, only the names of columns"):
        read_inputs(table([]), ("age",))


def test_a_single_target(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, inputs=np.zeros((12, 2)), targets=np.float32(2))
    with pytest.raises(BadInput, match="targets must have an entry for every sample"):
        read_table(path, labels=False)


def test_mistakes_are_in_the_order_of_lines(table):
    """Of inputs and targets together."""
    rows = [list(row) for row in ROWS]
    rows[1][2], rows[3][0], rows[3][1] = "x", "y", "z"
    with pytest.raises(BadInput) as caught:
        read_table(table(rows), labels=False, outputs=["price"], features=["size", "age"])
    places = [re.findall(r"line (\d+), column (\w+)", each)[0] for each in caught.value.problems]
    assert places == [("3", "price"), ("5", "size"), ("5", "age")]


@pytest.mark.parametrize("read", [read_table, read_inputs])
def test_a_file_of_another_kind(tmp_path, read):
    path = tmp_path / "samples.py"
    path.write_text("1\n")
    with pytest.raises(BadInput, match=r"must be a \.csv file, an \.npz file or a folder$"):
        read(path, **({"labels": False} if read is read_table else {"features": ["a"]}))
