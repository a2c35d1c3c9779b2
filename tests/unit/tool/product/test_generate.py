"""The directory is replaced whole or not touched; the checks of a product see what they should."""

import json
import sys
import types

import pytest
from amaranth.hdl import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from diastole.config.keys import Config
from diastole.errors import BadInput
from diastole.product import generate as product_module
from diastole.product.generate import generate, memory_ports
from diastole_hw.emit.sharing import convert_ports
from diastole_hw.memory.ram import Ram
from support import product_lint as lint

CONFIG = Config(name="little")


class SmallTop(wiring.Component):
    """Stands for the whole machine."""

    a: In(8)
    o: Out(8)

    def __init__(self, plan, *, config_hash):
        super().__init__()
        self.parameters = {"data_width": 64}
        self.latencies = {"o": 1}

    @property
    def ports(self):
        return convert_ports(self)

    def elaborate(self, platform):
        m = Module()
        count = Signal(4)
        m.submodules.words = ram = Ram(width=8, depth=16)
        m.d.sync += count.eq(count + 1)
        m.d.comb += [
            ram.write_en.eq(count[0]),
            ram.write_addr.eq(count),
            ram.write_data.eq(self.a),
            ram.read_en.eq(~count[0]),
            ram.read_addr.eq(count),
            self.o.eq(ram.read_data),
        ]
        return m


@pytest.fixture(autouse=True)
def small_machine(monkeypatch):
    monkeypatch.setitem(sys.modules, "diastole_hw.top", types.SimpleNamespace(Top=SmallTop))


@pytest.fixture
def product(tmp_path):
    generate(CONFIG, tmp_path / "product")
    return tmp_path / "product"


def names(directory):
    return sorted(str(path.relative_to(directory)) for path in directory.rglob("*"))


def test_writes_what_the_manifest_lists(tmp_path):
    directory = tmp_path / "product"
    manifest = generate(CONFIG, directory)
    assert json.loads((directory / "manifest.json").read_text()) == manifest
    listed = [(file["path"], file["kind"]) for file in manifest["files"]]
    assert {kind for path, kind in listed if path.startswith("tb/")} == {
        *("bench", "vectors", "makefile"),
    }
    assert [each for each in listed if not each[0].startswith("tb/")] == [
        ("README.md", "document"),
        ("doc/blocks.svg", "picture"),
        ("doc/first_run.svg", "picture"),
        ("rtl/little.v", "verilog"),
        ("rtl/little_mem_16x8.v", "memory"),
        ("blackbox/little_mem_16x8.v", "blackbox"),
        ("mem.json", "memories"),
        ("little.f", "filelist"),
        ("little_bb.f", "filelist"),
        ("little.toml", "configuration"),
        ("little.core", "core"),
        ("librelane/config.json", "librelane"),
        ("lint/little.vlt", "waiver"),
        ("lint/slang.f", "waiver"),
        ("constraints/little.sdc", "constraints"),
        ("constraints/little_ooc.xdc", "constraints"),
        ("regs/little.rdl", "registers"),
        ("regs/little.md", "registers"),
        ("regs/component.xml", "registers"),
        ("sw/little.h", "header"),
        ("sw/little_driver.h", "driver"),
        ("sw/little_vectors.h", "vectors"),
        ("sw/host.c", "host"),
        ("sw/board.cpp", "host"),
        ("sw/Makefile", "makefile"),
        ("sw/little.py", "driver"),
    ]
    assert manifest["memories"][0]["instances"] == 1
    assert {"name": "o", "direction": "output", "width": 8} in manifest["ports"]
    assert names(tmp_path)[0] == "product"
    assert all(name.startswith("product") for name in names(tmp_path / "new"))


def test_ports_of_memories():
    """A read that shows its word at once has neither clock nor enable."""
    at_once, clocked = memory_ports(0), memory_ports(1)
    assert at_once[0] == clocked[0]
    assert at_once[1] == {
        "kind": "read",
        "address": "read_addr",
        "data": "read_data",
        "latency_cycles": 0,
    }
    assert clocked[1] == at_once[1] | {"clock": "clk", "enable": "read_en", "latency_cycles": 1}


def test_replaces_an_old_product_whole(product):
    (product / "rtl" / "stale.v").write_text("")
    before = set(names(product))
    generate(CONFIG, product)
    assert set(names(product)) == before - {"rtl/stale.v"}
    assert [path.name for path in product.parent.iterdir()] == ["product"]


def test_refuses_a_directory_that_is_no_product(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.txt").write_text("precious")
    for content in (None, "{}", "[]", "no json"):
        if content is not None:
            (tmp_path / "mine" / "manifest.json").write_text(content)
        with pytest.raises(BadInput) as caught:
            generate(CONFIG, tmp_path / "mine")
        assert str(caught.value) == (
            f"{tmp_path}/mine exists and is not a product (no manifest.json of a product): "
            "the folder stays unchanged; choose another folder"
        )
    assert (tmp_path / "mine" / "thesis.txt").read_text() == "precious"


def test_refuses_a_file(tmp_path):
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(BadInput, match=r"is a file, not a product; choose another folder$"):
        generate(CONFIG, tmp_path / "mine")
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_circle_of_links(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(BadInput, match=r"^cannot write .*/loop: Not a directory$"):
        generate(CONFIG, tmp_path / "loop")
    assert [path.name for path in tmp_path.iterdir()] == ["loop"]


def test_what_cannot_be_written_is_bad_input(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"/file/product: there is no folder .*/file$"):
        generate(CONFIG, tmp_path / "file" / "product")


@pytest.mark.parametrize("moment", ["contents", "first rename", "second rename"])
def test_interrupted_run_leaves_the_old_product_whole(product, monkeypatch, moment):
    before = {name: (product / name).read_bytes() for name in names(product) if "." in name}
    renames = []

    def interrupt(*_):
        raise KeyboardInterrupt

    def rename(path, target):
        renames.append(path)
        if len(renames) == {"first rename": 1, "second rename": 2}[moment]:
            raise KeyboardInterrupt
        return original(path, target)

    if moment == "contents":
        monkeypatch.setattr(product_module, "product_contents", interrupt)
    else:
        original = type(product).rename
        monkeypatch.setattr(type(product), "rename", rename)
    with pytest.raises(KeyboardInterrupt):
        generate(Config(name="other"), product)
    assert {name: (product / name).read_bytes() for name in before} == before
    assert [path.name for path in product.parent.iterdir()] == ["product"]


def test_tools_find_nothing_wrong(product, capfd):
    assert lint.verilator(product) == []
    found, ports = lint.slang(product, capfd)
    assert found == []
    listed = [port for port in ports if port["name"] not in ("clk", "rst")]
    assert listed == lint.manifest(product)["ports"]
    assert lint.yosys(product) == ""
    assert lint.bad_names(lint.verilog(product)) == []
    assert lint.twins(lint.verilog(product)) == []


def edit(product, old, new):
    path = product / "rtl" / "little.v"
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_verilator_check_sees_a_class_that_is_not_waived(product):
    edit(product, "  reg [3:0] count", "  wire [0:3] backwards = 4'd0;\n  reg [3:0] count")
    assert any(message.startswith("ASCRANGE") for message in lint.verilator(product))


def test_slang_check_sees_errors_and_ports(product, capfd):
    edit(product, "  input [7:0] a", "  input [6:0] a")
    edit(product, "  reg [3:0] count", "  wire bad = missing;\n  reg [3:0] count")
    found, ports = lint.slang(product, capfd)
    assert any("undeclared identifier" in line for line in found), found
    assert {port["name"]: port["width"] for port in ports}["a"] == 7


def test_yosys_check_sees_two_drivers(product):
    edit(product, "  reg [3:0] count", "  assign o = a;\n  reg [3:0] count")
    assert "multiple conflicting drivers" in lint.yosys(product)


def test_name_checks_see_keywords_and_missing_names():
    text = "module output(\\a.b );\n  reg _07_;\n  wire [3:0] table;\n    _07_ <= 1;\n"
    text += "  unit cell (\n"
    assert lint.bad_names(text) == ["\\a.b", "_07_", "cell", "output", "table"]


def test_twin_check_sees_equal_modules():
    text = "module a(x);\n  input x;\nendmodule\nmodule b(x);\n  input x;\nendmodule\n"
    assert lint.twins(text + text.replace("input", "output")) == [("a", "b"), ("a", "b")]
