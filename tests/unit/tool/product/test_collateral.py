"""What tools are told of the Verilog of a product."""

from diastole.product.collateral import (
    SLANG_WAIVERS,
    VERILATOR_WAIVERS,
    file_list,
    slang_options,
    verilator_waivers,
)


def test_verilator_waivers():
    lines = verilator_waivers().splitlines()
    assert lines[0] == "`verilator_config"
    rules = [line.removeprefix("lint_off -rule ") for line in lines[2::2]]
    assert rules == list(VERILATOR_WAIVERS)
    assert [line.removeprefix("// ") for line in lines[1::2]] == list(VERILATOR_WAIVERS.values())
    assert verilator_waivers().endswith("\n")


def test_slang_options():
    assert slang_options().splitlines() == [
        line for rule, why in SLANG_WAIVERS.items() for line in (f"// {why}", f"-Wno-{rule}")
    ]


def test_every_waiver_has_a_reason():
    for why in (*VERILATOR_WAIVERS.values(), *SLANG_WAIVERS.values()):
        assert len(why.split()) > 4
        assert "\n" not in why


def test_file_list():
    assert file_list(["rtl/a.v", "rtl/b.v"]) == "rtl/a.v\nrtl/b.v\n"
    assert file_list([]) == ""
