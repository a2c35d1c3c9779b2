"""What a stranger reads: the tables of a README, read back, are those of the machine."""

import re

import numpy as np
import pytest

from diastole.config.presets import PRESETS
from diastole.product.example import FirstRun
from diastole.product.generate import product_files
from diastole.product.readme import readme_files
from diastole_sim.spec.formats import FAST, FORMAT_NAMES
from diastole_sim.spec.image import FloatLayout, image_layouts
from diastole_sim.spec.operations import FORWARD, OPERANDS
from diastole_sim.spec.registers import registers_of
from diastole_sim.spec.sizes.queues import BURST_BEATS
from support.product_facts import facts_of, little_config
from support.readme_host import ReadmeHost, ReadmeImage

CLASS_HEADS = ("tensor (class)", "format", "groups", "rounding", "copies", "planes")
CLASS_HEADS += ("b", "H", "E", "L", "P", "F")


def of_format(chosen: str):
    return little_config(format=dict.fromkeys(("x", "w", "dy"), chosen))


def host_of(config) -> ReadmeHost:
    return ReadmeHost(product_files(facts_of(config))["README.md"][1])


def run_of(config) -> FirstRun:
    return FirstRun(numerics=config.numerics, data_width=config.bus.data_width)


@pytest.mark.parametrize("chosen", [*FORMAT_NAMES, FAST.name, "e3m2"])
def test_words_of_the_commands_are_those_of_the_encoder(chosen):
    config = of_format(chosen)
    host, run = host_of(config), run_of(config)
    assert host.commands == [command.encode() for command in run.commands]
    for encoded, command in zip(host.commands, run.commands, strict=True):
        for name in host.fields:
            used = {field for field in host.fields if getattr(command, field)}
            if name in used:
                assert host.field(encoded, name) == getattr(command, name), name
    assert host.places["image of X"][0] == host.field(host.commands[2], "address_x")


def test_registers_and_writes():
    config = of_format("bfp4")
    host = host_of(config)
    assert host.registers == {
        register.name.upper(): register.offset for register in registers_of(planes=False)
    }
    offsets = set(host.registers.values())
    assert {at & ~4 if at not in offsets else at for at, _ in host.writes} <= offsets
    assert f"CONFIG_HASH\n   (0x{config.identification:08X})" in host.text


@pytest.mark.parametrize("chosen", [*FORMAT_NAMES, "e3m2"])
@pytest.mark.sampled(3)
def test_images_read_by_the_formulas_are_the_operands(chosen):
    """Elements and exponents found where the text says, as numbers that the text says."""
    config = of_format(chosen)
    host, run = host_of(config), run_of(config)
    rows = host.tables[CLASS_HEADS]
    for tensor, row in zip(FORWARD.factors, (rows[0], rows[1]), strict=True):
        image = host.dumped(f"image of {tensor.name}")
        assert image == run.images(tensor)[0].tobytes()
        read = ReadmeImage(host, row, run.shape(tensor))
        values = np.array(
            [
                [number(read, image, chosen, r, c) for c in range(run.shape(tensor)[1])]
                for r in range(run.shape(tensor)[0])
            ]
        )
        error = 0.1 if chosen == "nvfp4" else 0
        assert np.abs(values - run.values[tensor.name]).max() <= error


def number(read: ReadmeImage, image: bytes, chosen: str, r: int, c: int) -> float:
    """The value of an element, by the formulas of the text."""
    code, sign, block, row, at = read.element(image, r, c)
    (line,) = [li for li in read.host.text.splitlines() if li.startswith(f"- {chosen}: ")]
    if read.row[4] == "1":
        s = image[at + block]
    else:
        size = int(read.row[2].split("x")[1])
        side = read.host.block
        group = c // side // 8
        q = side * (c // side) // size - side * 8 * group // size
        s = image[at + side * q + row]
    value = evaluated(line, code, s, image)
    return -value if sign else value


def evaluated(line: str, code: int, s: int, image: bytes) -> float:
    """What the formulas of a format give."""
    formula = line.split(": ", 1)[1].replace("^", "**")
    if "v(c)" not in formula:
        return eval(formula.split(",")[0], {"c": code, "s": s})
    shift, mask, normal, low = re.search(
        r"f = c >> (\d+) and t = c & (\d+); v\(c\) = (.*?), or (.*?) if f is 0;", formula
    ).groups()
    f, t = code >> int(shift), code & int(mask)
    v = eval(normal if f else low, {"f": f, "t": t})
    if " * u * " in formula:
        exponent, fraction = s >> 3, s & 7
        u = (1 + fraction / 8) * 2.0 ** (exponent - 7) if exponent else fraction / 8 * 2.0**-6
        return v * u * 2.0 ** int.from_bytes(image[:2], "little", signed=True)
    return v * eval(re.search(r"v\(c\) \* (2\*\*\(s - \d+\))", formula)[1], {"s": s})


@pytest.mark.parametrize("preset", ["pico", "nano", "server"])
@pytest.mark.parametrize("shape", [(1, 1), (9, 130), (65, 8)])
def test_sizes_of_images_by_the_formulas(preset, shape):
    config = PRESETS[preset]
    host = host_of(config)
    check_sizes(config, host, shape)


def test_sizes_of_images_with_two_copies_and_headers():
    for chosen in ("nvfp4", "mxfp8_e4m3", FAST.name):
        config = of_format(chosen)
        check_sizes(config, host_of(config), (9, 70))


def check_sizes(config, host, shape):
    for tensor, row in zip(OPERANDS, host.tables[CLASS_HEADS], strict=True):
        layouts = image_layouts(
            config.numerics.tensor_class(tensor.tensor_class),
            shape,
            block=config.array.block,
            data_width=config.bus.data_width,
        )
        assert len(layouts) == int(row[4])
        for layout in layouts:
            places = ReadmeImage(host, row, (layout.rows, layout.cols)).places()
            assert places == {
                "pitch": layout.pitch_bytes,
                "row_max": layout.row_max_offset,
                "col_max": layout.col_max_offset,
                "size": layout.total_bytes,
            }


def test_result_and_pitches():
    config = of_format("bfp4")
    host, run = host_of(config), run_of(config)
    rows, cols = host.shapes["Y"]
    layout = FloatLayout(rows=rows, cols=cols, data_width=32)
    assert host.pitches["Y"] == layout.pitch_bytes
    assert f"       {' '.join(f'{v:g}' for v in run.result[0])}\n" in host.text
    assert "Y is exactly X W." in host.text
    assert "within the error of the formats" in host_of(of_format("nvfp4")).text


def test_ports_and_bus():
    two = little_config(
        "two", array={"rows": 2, "cols": 2, "block": 4}, bus={"data_width": 64, "ports": 2}
    )
    for config in (little_config(), two):
        facts = facts_of(config)
        host = host_of(config)
        listed = [
            {"name": name, "direction": direction, "width": int(bits)}
            for name, direction, bits, _ in host.tables["port", "direction", "bits", "for"]
        ]
        assert listed == facts.ports
        assert ("m_axi1_*" in host.text) == (config is two)
        assert host.beat == config.bus.data_width // 8
        burst = host.number(r"multiple of \d+ beats \((\d+) bytes\)")
        assert burst == BURST_BEATS * host.beat
        assert 4096 % burst == 0


def test_every_file_of_the_product_is_of_a_kind_that_is_listed():
    facts = facts_of(little_config())
    files = product_files(facts)
    host = host_of(little_config())
    listed = {row[0]: int(row[1]) for row in host.tables["kind", "files", "paths"]}
    kinds = [kind for kind, _ in files.values()]
    assert listed == {kind: kinds.count(kind) for kind in kinds} | {"manifest": 1}
    assert set(readme_files(facts, {})) == {"README.md", "doc/blocks.svg", "doc/first_run.svg"}
    for path in ("doc/blocks.svg", "doc/first_run.svg", "little.f", "little_bb.f", "mem.json"):
        assert path in host.text
        assert path in files
