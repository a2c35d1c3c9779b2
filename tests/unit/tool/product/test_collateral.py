"""What tools are told of the Verilog of a product."""

from diastole.product.collateral import (
    SLANG_WAIVERS,
    VERILATOR_WAIVERS,
    VERILATOR_WAIVERS_BY_TEXT,
    file_list,
    slang_options,
    verilator_waivers,
)

KNOWN_TO_5_006 = set(
    """
    ALWCOMBORDER ASSIGNIN BADSTDPRAGMA BLKANDNBLK BLKLOOPINIT BLKSEQ BSSPACE CASEINCOMPLETE
    CASEOVERLAP CASEWITHX CASEX CASTCONST CLKDATA CMPCONST COLONPLUS COMBDLY CONTASSREG
    DECLFILENAME DEPRECATED ENCAPSULATED ENDLABEL ENUMVALUE EOFNEWLINE GENCLK HIERBLOCK IFDEPTH
    IGNOREDRETURN IMPERFECTSCH IMPLICITSTATIC IMPORTSTAR IMPURE INCABSPATH INFINITELOOP
    INITIALDLY INSECURE LITENDIAN MINTYPMAXDLY MODDUP MULTIDRIVEN MULTITOP NOLATCH NULLPORT
    PINCONNECTEMPTY PINMISSING PINNOCONNECT PINNOTFOUND PKGNODECL PROCASSWIRE PROFOUTOFDATE
    PROTECTED RANDC REALCVT REDEFMACRO RISEFALLDLY SELRANGE SHORTREAL SPLITVAR STMTDLY
    SYMRSVDWORD SYNCASYNCNET TICKCOUNT TIMESCALEMOD UNDRIVEN UNOPT UNOPTFLAT UNOPTTHREADS
    UNPACKED UNUSEDGENVAR UNUSEDPARAM UNUSEDSIGNAL USERERROR USERFATAL USERINFO USERWARN
    VARHIDDEN WAITCONST WIDTH WIDTHCONCAT ZERODLY
    """.split()
)
"""Classes of Verilator 5.006, the oldest that the README of a product names: its file of waivers
must not have another name, or it ends with "Unknown Error Code"."""


def test_verilator_waivers():
    lines = verilator_waivers().splitlines()
    assert lines[0] == "`verilator_config"
    assert [line.removeprefix("// ") for line in lines[1::2]] == [
        *VERILATOR_WAIVERS.values(),
        *VERILATOR_WAIVERS_BY_TEXT.values(),
    ]
    assert lines[2::2] == [
        *(f"lint_off -rule {rule}" for rule in VERILATOR_WAIVERS),
        *(f'lint_off -file "*" -match "{text}"' for text in VERILATOR_WAIVERS_BY_TEXT),
    ]
    assert verilator_waivers().endswith("\n")


def test_old_verilators_know_every_class():
    assert set(VERILATOR_WAIVERS) <= KNOWN_TO_5_006


def test_slang_options():
    assert slang_options().splitlines() == [
        line for rule, why in SLANG_WAIVERS.items() for line in (f"// {why}", f"-Wno-{rule}")
    ]


def test_every_waiver_has_a_reason():
    verilator = (*VERILATOR_WAIVERS.values(), *VERILATOR_WAIVERS_BY_TEXT.values())
    for why in (*verilator, *SLANG_WAIVERS.values()):
        assert len(why.split()) > 4
        assert "\n" not in why


def test_file_list():
    assert file_list(["rtl/a.v", "rtl/b.v"]) == "rtl/a.v\nrtl/b.v\n"
    assert file_list([]) == ""
