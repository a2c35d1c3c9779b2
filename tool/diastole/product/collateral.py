"""Make the files that describe the Verilog of a product to tools: file list and lint waivers."""

# Every class of warnings that the emitted Verilog causes, with the reason why the class is
# harmless. The lint tests fail on all remaining classes. Verilator refuses the name of a class that
# Verilator does not know. Every Verilator from 5.006 on knows the names below: the newest versions
# use WIDTH as the name of two classes.
VERILATOR_WAIVERS = {
    "CASEINCOMPLETE": "a case only overrides the default that is assigned before it",
    "CASEOVERLAP": "the first of the cases that match is meant",
    "DECLFILENAME": "the modules of a product share one file",
    "INITIALDLY": "a delayed assignment at time 0 is what starts the combinational processes",
    "UNOPTFLAT": "old versions take bits that depend on other bits of a net for a loop",
    "UNUSEDSIGNAL": "sums and structures have bits that nobody reads, and nets have second names",
    "VARHIDDEN": "a signal may have the name of the instance that it is in: scopes are apart",
    "WIDTH": "low bits of a shifted value are meant, and unsigned operands extended with zeros",
}
# Classes that only some versions of Verilator know, selected by the text of the messages.
VERILATOR_WAIVERS_BY_TEXT = {
    "Procedural assignment to declaration with initial value*": (
        "registers have a power-up value, for targets that can load one"
    ),
}
SLANG_WAIVERS = {
    "arith-op-mismatch": "unsigned operands are extended with zeros, which is what is meant",
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
