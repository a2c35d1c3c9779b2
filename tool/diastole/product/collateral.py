"""What tools are told of the Verilog of a product: file list, lint waivers."""

# Each class of warnings that the emitted Verilog gives, and why it is harmless there. The lint
# tests fail on any other class. Verilator refuses the name of a class that it does not know, so
# these are names that every Verilator from 5.006 on knows: the newest has WIDTH as the name of two.
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
# Classes that only some versions know, by the text of their messages.
VERILATOR_WAIVERS_BY_TEXT = {
    "Procedural assignment to declaration with initial value*": (
        "registers have a power-up value, for targets that can load one"
    ),
}
SLANG_WAIVERS = {
    "arith-op-mismatch": "unsigned operands are extended with zeros, which is what is meant",
}


def verilator_waivers() -> str:
    """A Verilator configuration file that turns off the waived classes."""
    lines = ["`verilator_config"]
    for rule, why in VERILATOR_WAIVERS.items():
        lines += [f"// {why}", f"lint_off -rule {rule}"]
    for text, why in VERILATOR_WAIVERS_BY_TEXT.items():
        lines += [f"// {why}", f'lint_off -file "*" -match "{text}"']
    return "\n".join(lines) + "\n"


def slang_options() -> str:
    """Options for slang, as a file for its ``-f``."""
    lines: list[str] = []
    for rule, why in SLANG_WAIVERS.items():
        lines += [f"// {why}", f"-Wno-{rule}"]
    return "\n".join(lines) + "\n"


def file_list(sources: list[str]) -> str:
    """Paths of the Verilog files relative to the product, one per line."""
    return "".join(f"{path}\n" for path in sources)
