"""Build descriptions name the files that a product has, in keys that their tools know."""

import json

import pytest

from diastole.product.cores import fusesoc, librelane
from diastole.product.generate import product_files
from support.product_facts import facts_of, little_config

yaml = pytest.importorskip("yaml", reason="PyYAML reads the core")

FACTS = facts_of(little_config())
BENCH = ["tb/little_tb.v", "tb/vectors/x.hex"]
LIBRELANE_KEYS = {
    *("meta", "DESIGN_NAME", "VERILOG_FILES", "EXTRA_VERILOG_MODELS", "CLOCK_PORT"),
    *("CLOCK_PERIOD", "PNR_SDC_FILE", "SIGNOFF_SDC_FILE", "MACROS"),
}
"""Of librelane 3.0's variables of a flow, as its documentation lists them."""


def core(bench):
    text = fusesoc(FACTS, bench)
    assert text.startswith("CAPI=2:\n")
    return yaml.safe_load(text)


def test_core_names_files_of_the_product():
    files = set(product_files(FACTS))
    read = core([])
    named = [path for each in read["filesets"].values() for path in each["files"]]
    assert len(named) == 5
    assert set(named) <= files
    assert read["name"].startswith("diastole:machines:little:")
    assert set(read["targets"]) == {"default", "lint", "synth", "vivado"}
    for target in read["targets"].values():
        assert set(target["filesets"]) <= set(read["filesets"])
        assert target["toplevel"] == "little"


def test_core_has_a_simulation_where_there_is_a_bench():
    read = core(BENCH)
    assert read["filesets"]["bench"]["files"] == ["tb/little_tb.v"]
    assert read["filesets"]["vectors"]["files"] == [
        {"tb/vectors/x.hex": {"copyto": "vectors/x.hex"}}
    ]
    simulation = read["targets"]["sim"]
    assert simulation["toplevel"] == "little_tb"
    assert set(simulation["filesets"]) == {"rtl", "bench", "vectors"}
    assert simulation["flow"] == "sim"


def test_librelane_has_keys_that_it_knows_and_macros_of_what_a_clock_reads():
    """The memory that shows its word at once is logic: no macro has such a port."""
    config = json.loads(librelane(FACTS))
    assert set(config) == LIBRELANE_KEYS
    files = set(product_files(FACTS))
    keys = ("VERILOG_FILES", "EXTRA_VERILOG_MODELS")
    for path in [p for key in keys for p in config[key]] + [config["PNR_SDC_FILE"]]:
        assert path.removeprefix("dir::../") in files
    assert set(config["MACROS"]) == {"little_mem_1024x20"}
    assert config["VERILOG_FILES"] == ["dir::../rtl/little.v", "dir::../rtl/little_mem_16x8.v"]
    assert config["EXTRA_VERILOG_MODELS"] == ["dir::../blackbox/little_mem_1024x20.v"]
    for macro in config["MACROS"].values():
        assert macro["gds"]
        assert macro["lef"]
