"""Faults put into the Verilog are noticed: what the tests of products say can be believed.

A sample; ``make mutate`` tries all faults on all machines.
"""

import os
import subprocess
import sys
from dataclasses import replace

import pytest

from diastole.backend import cached_product
from mutation import check, planted
from mutation.equal import Prover
from mutation.plant import Fault, Planted, Rewrite, plant, read
from mutation.random_faults import random_faults
from mutation.run import EQUAL, FAILED, NOTICED, SURVIVES, Trial, Verdict
from mutation.survivors import EVERY, LONGEST, SAME, UNREACHED, read_tables, shortened
from mutation.tally import Tally
from mutation.verilog import TEMPORARY, Source
from support.sweep import sweep

SAMPLED = {"squares": planted.SQUARES, "windows": planted.WINDOWS, "steps": planted.STEPS}
RANDOM = 40


@pytest.fixture(scope="module", params=[sweep("squares"), "windows", sweep("steps")])
def machine(request):
    return SAMPLED[request.param]


@pytest.fixture(scope="module")
def product(machine):
    return cached_product(machine.config)


@pytest.fixture(scope="module")
def faults(machine, product):
    """Every fault placed by hand, and a few at random."""
    sources = read(product)[2]
    by_hand = [fault.placed(sources) for fault in machine.faults]
    return [*by_hand, *replace(machine, random=RANDOM).drawn(sources, seed=2)]


@pytest.fixture(scope="module")
def trial(machine, product, faults, tmp_path_factory):
    directory = plant(product, faults, tmp_path_factory.mktemp("mutants") / machine.name)
    return Trial(directory, check.record(directory, machine.scenes))


@pytest.mark.parametrize("machine", planted.MACHINES, ids=lambda machine: machine.name)
@pytest.mark.sampled(3)
def test_every_fault_has_its_place(machine):
    sources = read(cached_product(machine.config))[2]
    for fault in machine.faults:
        assert fault.placed(sources).edits, fault.name


@pytest.mark.sweep  # draws those of every machine
def test_what_is_argued_is_of_faults_that_are_drawn():
    drawn: dict[str, set[str]] = {EVERY: set()}
    for machine in planted.MACHINES:
        sources = read(cached_product(machine.config))[2]
        drawn[machine.name] = {shortened(fault.name) for fault in machine.drawn(sources)}
        drawn[EVERY] |= drawn[machine.name]
    for table in (SAME, UNREACHED):
        for name, reasons in table.items():
            assert set(reasons) <= drawn[name], name


def test_faults_are_read_for_their_machines():
    text = r"""
# A remark.
[one two]
unit: at one place: = (aBITS); => 1'h0
[two]
other: at all of them, in two lines:
    = (SOME) \? b everywhere
    => {} & 1'h0
"""
    first = Fault("at one place", "unit", r"= (a\[\d+(?::\d+)?\]);", "1'h0")
    second = Fault("at all of them, in two lines", "other", r"= (_\d+_) \? b", "{} & 1'h0", True)
    assert planted.read_faults(text) == {"one": (first,), "two": (first, second)}


def test_every_fault_is_of_a_machine():
    assert set(planted.FAULTS) <= {machine.name for machine in planted.MACHINES}


def test_survivors_are_read_with_their_reasons():
    text = "SAME one\n  a: b\n    why\n    so\nUNREACHED two\n  c\n    no\nSAME two\n  d\n    e\n"
    assert read_tables(text) == {
        "SAME": {"one": {"a: b": "why so"}, "two": {"d": "e"}},
        "UNREACHED": {"two": {"c": "no"}},
    }


def test_every_survivor_has_a_reason_and_a_short_name():
    for table in (SAME, UNREACHED):
        for reasons in table.values():
            assert all(reasons.values())
            assert max(map(len, reasons)) <= LONGEST


def test_long_names_are_shortened_and_stay_apart():
    name = "unit: " + "a & " * 30 + "b: stuck: bit 0 at 0"
    short = shortened(name)
    assert short.startswith("unit: a & a & ")
    assert " b: stuck: bit 0 at 0 #" in short
    assert len(short) <= LONGEST
    assert short != shortened(name.replace("a & " * 30, "a & " * 31))
    assert shortened("unit: short") == "unit: short"


@pytest.mark.parametrize("number", [sweep(0), 65535])
def test_without_a_fault_all_is_well(number, trial):
    (verdict,) = trial.run([number])
    assert verdict.verdict == SURVIVES, verdict.why


def test_faults_placed_by_hand_are_noticed(machine, faults, trial):
    numbers = range(1, len(machine.faults) + 1, 3)
    alive = [faults[v.number - 1].name for v in trial.run(numbers) if v.verdict != NOTICED]
    assert not alive


def test_most_random_faults_are_noticed(machine, faults, trial):
    """By some scenes; the rest need the others, or change nothing."""
    numbers = range(len(machine.faults) + 1, len(faults) + 1, 4)
    found = [v.verdict for v in trial.run(numbers)]
    assert found.count(NOTICED) >= 0.6 * len(found), found


@pytest.mark.parametrize(
    "end, verdict, why",
    [
        (os.abort, NOTICED, "the simulation gave up"),
        (lambda: os.kill(os.getpid(), 9), FAILED, "the check ended with -9"),  # as without memory
        (lambda: os._exit(3), FAILED, "the check ended with 3"),
        (lambda: {}["no key"], FAILED, "KeyError: 'no key'"),
    ],
    ids=["abort", "killed", "exit", "exception"],
)
def test_how_a_check_ends(end, verdict, why, trial):
    """A simulation that ends the process notices the fault; a mistake of ours does not."""
    ending = Trial(trial.planted, {}, lambda number: end() is None)
    (seen,) = ending.run([0])
    assert seen.verdict == verdict
    assert why in seen.why


@pytest.mark.parametrize(
    "verdicts, good, enough",
    [
        ([NOTICED] * 20, True, True),
        ([NOTICED] * 20 + [FAILED], False, False),
        ([NOTICED] * 20 + [SURVIVES], False, False),  # nobody argues why
        ([EQUAL], True, True),
    ],
)
def test_tally(verdicts, good, enough, machine, faults):
    tally = Tally(machine.name)
    for verdict in verdicts:
        tally.random(faults[-1], Verdict(1, verdict, "", 0.0))
    assert tally.good == good
    assert tally.enough() == enough


# Random faults.

MODULE = """\
module unit(clk, rst, a, b, o);
  wire _00_,
    _02_;
  reg [3:0] _01_;
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [3:0] a;
  wire [3:0] a;
  input [3:0] b;
  wire [3:0] b;
  output [3:0] o;
  reg [3:0] o = 4'h0;
  wire [3:0] dead;
  assign _00_ = a < b;
  assign dead = a;
  always @(posedge clk)
    o <= _01_;
  always @* begin
    _01_ = o;
    if (_00_) begin
      _01_ = b;
    end
    if (rst) begin
      _01_ = 4'h0;
    end
  end
endmodule"""


def drawn(text, seed=0):
    return random_faults({"unit": Source("unit", text)}, seed=seed, count=100)


def test_draws_are_of_every_kind_and_name_no_temporary():
    found = [fault for seed in range(60) for fault in drawn(MODULE, seed)]
    kinds = {fault.name.rsplit(": ", 2)[1] for fault in found}
    assert kinds == {"operator", "constant", "condition", "dropped", "stuck", "swapped"}
    assert not any(TEMPORARY.search(fault.name) for fault in found)
    assert not any("dead" in fault.name.split(":")[1] for fault in found)


def test_draws_stay_where_nothing_has_changed():
    """Another statement and other numbers of temporaries leave the faults of the old ones."""
    other = MODULE.replace("_00_", "_17_").replace(
        "  assign dead", "  wire more;\n  assign more = b > a;\n  assign dead"
    )
    assert {f.name for f in drawn(MODULE)} == {f.name for f in drawn(other)}


@pytest.mark.parametrize(
    "pattern, message",
    [
        (r"_01_ = (b);", None),
        (r"if \(_00_\) begin\s+_01_ = (c);", "fault: no such place in unit"),
        (r"(if \(_00_\) begin\s+_01_ = b);", "fault: more than an expression in unit"),
        (r"wire (clk|rst);", "fault: at 2 places"),
        (r"o = (4'h0);", "fault: a register's initial value in unit"),
    ],
)
def test_a_fault_finds_one_expression(pattern, message):
    fault, sources = Fault("fault", "unit", pattern, "a"), {"unit": Source("unit", MODULE)}
    if message is None:
        (edit,) = fault.placed(sources).edits
        assert MODULE[edit.start : edit.end] == "b"
    else:
        with pytest.raises(AssertionError, match=f"^{message}$"):
            fault.placed(sources)


def planted_at(text, value, faulty):
    source = Source("unit", text)
    (statement,) = [s for s in source.statements if s.value == value]
    return Planted("fault", "top", (Rewrite(statement, faulty),))


@pytest.mark.parametrize(
    "value, faulty, equal",
    [
        ("a < b", "b > a", True),
        ("a < b", "! (a >= b)", True),
        ("a < b", "a <= b", False),
        ("4'h0", "4'h1", False),
        ("b", None, False),
    ],
)
def test_proof_of_equality(value, faulty, equal, tmp_path):
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "unit.v").write_text(MODULE)
    fault = planted_at(MODULE, value, faulty)
    assert Prover(tmp_path, tmp_path / "proofs").equal(fault, "faulty") == equal


AROUND = """\
module around(clk, rst, a, o);
  input clk;
  wire clk;
  input rst;
  wire rst;
  input [3:0] a;
  wire [3:0] a;
  output [3:0] o;
  wire [3:0] o;
  around_unit unit(.clk(clk), .rst(rst), .a(a), .b(4'h0), .o(o));
endmodule
"""


@pytest.mark.parametrize(
    "value, faulty, equal",
    [("a < b", "b > a", True), ("a < b", "a < 4'h0", True), ("b", "a", True), ("o", "a", False)],
    ids=["alone", "by what is around", "never", "not"],
)
def test_proof_of_equality_within_a_product(value, faulty, equal, tmp_path):
    text = MODULE.replace("module unit", "module around_unit")
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "around.v").write_text(AROUND + text)
    (statement,) = [s for s in Source("around_unit", text).statements if s.value == value]
    fault = Planted("fault", "unit", (Rewrite(statement, faulty),))
    assert Prover(tmp_path, tmp_path / "proofs").equal(fault, "faulty") == equal


READS = """\
module reads(clk, rst, en, d, o);
  input clk;
  wire clk;
  input rst;
  wire rst;
  input en;
  wire en;
  input [3:0] d;
  wire [3:0] d;
  output [3:0] o;
  wire [3:0] o;
  wire [2:0] _00_;
  reg [1:0] _01_;
  reg [1:0] place = 2'h0;
  assign _00_ = place + 1'h1;
  always @(posedge clk)
    place <= _01_;
  always @* begin
    _01_ = place;
    if (en) begin
      _01_ = _00_[1:0];
    end
    if (rst) begin
      _01_ = 2'h0;
    end
  end
  reads_mem_4x4 ram (.clk(clk), .write_en(en), .write_addr(place), .write_data(d),
    .read_addr(place), .read_data(o));
endmodule"""
MEMORY = """\
module reads_mem_4x4 (
  input clk,
  input write_en,
  input [1:0] write_addr,
  input [3:0] write_data,
  input [1:0] read_addr,
  output [3:0] read_data
);
  reg [3:0] words [0:3];
  assign read_data = words[read_addr];
  always @(posedge clk)
    if (write_en) words[write_addr] <= write_data;
endmodule
"""


@pytest.mark.parametrize(
    "faulty, equal",
    [("{ place[1] ^ place[0], ~ place[0] }", True), ("{ place[1] | place[0], ~ place[0] }", False)],
)
def test_proof_beside_a_memory(faulty, equal, tmp_path):
    """The sum in other words needs induction: an address is a register, and a memory is unknown to
    the proof."""
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "reads.v").write_text(READS)
    (tmp_path / "rtl" / "reads_mem_4x4.v").write_text(MEMORY)
    fault = planted_at(READS, "place + 1'h1", faulty)
    assert Prover(tmp_path, tmp_path / "proofs").equal(fault, "faulty") == equal


def test_a_proof_that_yosys_cannot_do_is_no_answer(tmp_path):
    (tmp_path / "rtl").mkdir()
    (tmp_path / "rtl" / "unit.v").write_text(MODULE)
    prover = Prover(tmp_path, tmp_path / "proofs")
    with pytest.raises(RuntimeError, match="Yosys cannot do its part of the proof"):
        prover.equal(planted_at(MODULE, "a < b", "a <"), "faulty")


def test_command_line_refuses_unknown_machines(pytestconfig):
    script = pytestconfig.rootpath / "scripts" / "mutation.py"
    done = subprocess.run([sys.executable, script, "none"], capture_output=True, text=True)
    assert done.returncode == 2
    assert "no machine none; there are faulty" in done.stderr
