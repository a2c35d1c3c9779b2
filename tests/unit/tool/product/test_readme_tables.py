"""Tables of the README: what they say of machines that differ."""

from diastole.product import readme_tables as made
from diastole.product.example import FirstRun
from diastole_hw.ports import BUSES
from support.product_facts import facts_of, little_config
from support.readme_host import tables

SQUARES = facts_of(little_config())
VECTORS = facts_of(little_config("vectors", format=dict.fromkeys(("x", "w", "dy"), "mxfp8_e4m3")))
FAST = facts_of(little_config("planes", format=dict.fromkeys(("x", "w", "dy"), "fast")))
RUN = FirstRun(numerics=SQUARES.config.numerics, data_width=32)


def rows(lines):
    ((_, found),) = tables("\n".join(lines)).items()
    return found


def test_every_port_has_a_bus():
    found = {row[0]: row[3] for row in rows(made.pinout(SQUARES))}
    assert set(found.values()) <= set(BUSES.values())
    assert found["m_axi_awaddr"] == BUSES["m_axi"]


def test_operations_read_the_copies_that_they_need():
    one = {row[0]: row[2] for row in rows(made.operations_table(SQUARES))}
    two = {row[0]: row[2] for row in rows(made.operations_table(VECTORS))}
    assert one["forward"] == "`address_x`: image of X; `address_w`: image of W; `out_a`: Y"
    assert two["forward"] == (
        "`address_x`: image of X, copy 1; `address_w`: image of W, copy 2; `out_a`: Y"
    )
    assert two["dw"].startswith(
        "`address_x`: image of X, copy 2; `address_dy`: image of dY, copy 2"
    )
    assert "`address_dy_m`" not in one["backward"]
    assert "`address_dy_m`: image of dY, copy 2" in two["backward"]
    equations = {row[0]: row[1] for row in rows(made.operations_table(SQUARES))}
    assert equations["backward"] == "dX = dY W^T, dW = X^T dY"
    assert equations["forward"] == "Y = X W"


def test_classes_say_copies_planes_and_parts():
    of_squares, of_vectors, of_planes = (
        rows(made.classes_table(facts))[0] for facts in (SQUARES, VECTORS, FAST)
    )
    assert of_squares[:4] == ["X (0)", "bfp4", "4x4", "nearest"]
    assert of_squares[4:] == ["1", "1", "5", "0", "8", "80", "1", "1"]
    assert of_vectors[4:] == ["2", "1", "8", "0", "4", "128", "4", "0"]
    assert of_planes[4:7] == ["1", "1 or 2", "3"]


def test_exponents_and_values_by_kind():
    assert made.exponent_lines(SQUARES) == [
        "- X, W, dY: the 8 bytes are the exponents of the 8 blocks of the group."
    ]
    (line,) = made.exponent_lines(VECTORS)
    assert line.startswith("- X, W, dY: 1 run of 4 bytes. Byte 4 q + r is the exponent of row r")
    assert made.value_lines(SQUARES) == [
        "- bfp4: c * 2^(s - 130), where c is the magnitude code and s is the exponent byte"
    ]
    assert "code of m bits and s is" in made.value_lines(FAST)[0]


def test_facts_of_the_machine():
    found = dict(rows(made.facts_table(SQUARES)))
    assert found["multipliers"] == "16"
    assert found["bus to memory"] == "1 of 32 bits"
    assert found["vector unit"] == "none"
    floats = facts_of(little_config("floats", accumulator={"kind": "float", "mantissa": 9}))
    assert "9 bits below the leading bit" in dict(rows(made.facts_table(floats)))["accumulators"]


def said(name: str, **tables: object) -> str:
    """What a README says of numbers, as one line."""
    return " ".join(" ".join(made.number_lines(facts_of(little_config(name, **tables)))).split())


def test_what_is_rounded_and_how():
    plain = said("plain")
    assert "NaN becomes 0. Inf becomes the largest element, or 0" in plain
    assert "beyond the largest element becomes the largest element in X, W, dY." in plain
    assert "`nearest`: nu > 1/2, or nu = 1/2 and the kept part is odd. `stochastic-b`: " in plain
    assert "floor(512 nu) + 2 R + 1 >= 512. R is 8 bits of a hash of SEED, the tag," in plain
    assert "Products: the sum of 4 terms along the contraction is exact. The sum" in plain
    assert "F = 18 bits" in plain
    assert "The addition is exact for" not in plain
    floats = said("floats", accumulator={"kind": "float", "mantissa": 9, "chunk": 32})
    assert "exact for 32 terms. The sum of 32 terms is rounded to 10 significant bits" in floats
    assert "R is 6 bits of the number itself" in said("drawn", rounding={"kind": "data", "bits": 6})
    windowed = said(
        "windowed", cell={"window": 12}, format=dict.fromkeys(("x", "w", "dy"), "mxfp8_e4m3")
    )
    assert (
        "is exact, except that terms of more than 12 bits are first rounded to 12 bits, half away"
        in windowed
    )
    poisoned = said(
        "poisoned",
        format={"x": "fp8_e5m2", "w": "mxfp8_e5m2", "dy": "mxfp8_e5m2"},
        special="poison",
        overflow={"x": "specification"},
    )
    assert "the whole group becomes NaN, and so does every result" in poisoned
    assert "becomes Inf (recorded in FLAGS) in X; the largest element in W, dY." in poisoned
    flagged = said(
        "flagged",
        format={"x": "fp8_e4m3", "w": "bfp4", "dy": "bfp4"},
        overflow={"x": "specification"},
    )
    assert (
        "becomes the largest element (recorded as NaN in FLAGS) in X; the largest element in W, dY."
        in flagged
    )


def test_dumps_leave_lines_of_zeros_out_but_the_last():
    lines = [line for line in made.image_dumps(RUN) if line.startswith("    +")]
    zeros = [line for line in lines if not line.split(maxsplit=1)[1].strip("0 ")]
    assert len(zeros) <= 2
    assert len(lines) > 8


def test_files_of_a_kind_are_counted():
    files = {f"rtl/m{n}.v": ("memory", "") for n in range(6)} | {"a.f": ("filelist", "")}
    assert rows(made.file_rows(files)) == [
        ["memory", "6", "`rtl/m0.v`, ..., `rtl/m5.v`"],
        ["filelist", "1", "`a.f`"],
    ]


def test_tables_of_the_run():
    assert [row[2] for row in rows(made.write_table(RUN))] == [about for *_, about in RUN.writes]
    assert [row[3] for row in rows(made.place_table(RUN))] == [
        place.what for place in RUN.places.values()
    ]
    assert len(rows(made.command_words(RUN))) == 16
