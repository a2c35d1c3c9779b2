"""Make the files that describe the Verilog of a product to tools: file list and lint waivers."""

# Every class of warnings that the emitted Verilog causes, with the reason why the class is
# harmless. The lint tests fail on all remaining classes. Verilator refuses the name of a class that
# Verilator does not know. Every Verilator from 5.006 on knows the names below: the newest versions
# use WIDTH as the name of two classes.
VERILATOR_WAIVERS = {
    "CASEINCOMPLETE": "a case only overrides a default that is assigned before the case",
    "CASEOVERLAP": "the first matching case is intended",
    "DECLFILENAME": "the modules of a product share one file",
    "INITIALDLY": "a delayed assignment at time 0 starts the combinational processes",
    "UNOPTFLAT": "old versions report a loop if bits of a net depend on bits of the same net",
    "UNUSEDSIGNAL": "sums and structures have bits without readers, and nets have second names",
    "VARHIDDEN": "a signal may have the name of the instance around the signal, in another scope",
    "WIDTH": "low bits of shifted values are intended; zeros extend unsigned operands",
}
# Classes that only some versions of Verilator know, selected by the text of the messages.
VERILATOR_WAIVERS_BY_TEXT = {
    "Procedural assignment to declaration with initial value*": (
        "registers have a power-up value, for targets that load power-up values"
    ),
}
SLANG_WAIVERS = {
    "arith-op-mismatch": "zeros extend unsigned operands, as intended",
}


def verilator_waivers() -> str:
    """Return a Verilator configuration file that turns off the waived classes."""
    lines = ["`verilator_config"]
    for rule, why in VERILATOR_WAIVERS.items():
        lines += [f"// {why}", f"lint_off -rule {rule}"]
    for text, why in VERILATOR_WAIVERS_BY_TEXT.items():
        lines += [f"// {why}", f'lint_off -file "*" -match "{text}"']
    return "\n".join(lines) + "\n"


def slang_options() -> str:
    """Return options for slang, as a file for slang's option ``-f``."""
    lines: list[str] = []
    for rule, why in SLANG_WAIVERS.items():
        lines += [f"// {why}", f"-Wno-{rule}"]
    return "\n".join(lines) + "\n"


def file_list(sources: list[str]) -> str:
    """Return the paths of the Verilog files relative to the product, a line per file."""
    return "".join(f"{path}\n" for path in sources)
