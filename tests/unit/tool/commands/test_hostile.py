"""What nobody means: numbers without end, devices, keys that are said twice, wrong endings, folders
that are not there. A message and exit code 2, before any work; never a traceback."""

import os

import numpy as np
import pytest

HUGE = "9" * 5000
CUT = "9" * 57 + "..."
TOML = f"steps = 0x{'f' * 5000}\n[over]\nformat = ['bfp4']\n"


@pytest.fixture
def files(diastole, tmp_path):
    """A matrix product, lists of layers and plans in the folder, some with numbers without end."""
    np.savez("a.npz", X=np.ones((2, 2), np.float32), W=np.ones((2, 2), np.float32))
    (tmp_path / "layers.csv").write_text("name,M,K,N\na,8,8,8\n")
    (tmp_path / "huge.csv").write_text(f"name,M,K,N\na,{HUGE},8,8\n")
    (tmp_path / "huge.toml").write_text(f"[array]\nrows = {HUGE}\n")
    (tmp_path / "hex.toml").write_text(f"[array]\nrows = 0x{'f' * 5000}\n")
    (tmp_path / "plan.toml").write_text(TOML)
    (tmp_path / "huge.jsonl").write_text(f'{{"key": "a", "seed": {HUGE}, "error": null}}\n')
    (tmp_path / "deep.jsonl").write_text('{"key": ' + "[" * 100_000 + "\n")
    (tmp_path / "folder").mkdir()
    os.mkfifo("pipe")
    return diastole


RUN = "run nano.toml --backend golden --op forward --in a.npz --out b.npz"
TRAIN = "train nano.toml --backend golden --task digits"
TEXT = "train nano.toml --backend golden --task text"
ESTIMATE = "estimate nano.toml --shapes layers.csv"
COMPARE = "compare nano.toml --over format=bfp4"
RESULTS = "is not a result of a comparison; give another file"

NUMBERS = {
    "check huge.toml": "huge.toml: is not a TOML file: an integer has too many digits",
    "check hex.toml": "hex.toml: array.rows must be an integer in 1..64, not a huge integer",
    f"check nano.toml --set array.rows={HUGE}": "--set: array.rows must be an integer in 1..64",
    f"{RUN} --seed {HUGE}": f"--seed must be an integer in 0..4294967295, not {CUT}",
    f"{RUN} --nest t_blocks={HUGE}": (
        f"--nest: t_blocks must be an integer of at least 0, not {CUT}"
    ),
    f"{RUN} --part m,0,{HUGE}": "--part: a part must be AXIS,INDEX,COUNT, such as m,0,4, not m,0,9",
    f"{TRAIN} --hidden {HUGE}": "--hidden must be 1 to 64 integers in 1..",
    f"{TRAIN} --rate {HUGE}": "--rate must be a number above 0 and at most 1000",
    f"{TRAIN} --loss-scale {HUGE}": "--loss-scale must be an integer in",
    f"{ESTIMATE} --widths {HUGE}": "--widths must be bits, as in 4 or x=4,w=2,dy=4, not",
    f"{ESTIMATE} --batch {HUGE}": "--batch must be an integer in 1..65536, not",
    "estimate nano.toml --shapes huge.csv": "huge.csv: line 2: m must be an integer in 1..",
    f"{COMPARE} --seeds {HUGE}": "--seeds must be different integers in 0..4294967295",
    "compare --plan plan.toml": "plan.toml: steps must be an integer in 1..1000000, not a huge",
    f"{COMPARE} --results huge.jsonl": f"huge.jsonl: line 1 {RESULTS}",
    f"{COMPARE} --results deep.jsonl": f"deep.jsonl: line 1 {RESULTS}",
    f"explain nano.toml --sizes {HUGE},1,1 -o p.html": "--sizes must be three integers M,K,N in",
    f"formats --data a.npz --grouping {HUGE}x{HUGE}": "--grouping must be",
    f"formats --block {HUGE}": "--block must be one of",
}
DEVICES = {
    "check /dev/zero": "/dev/zero: is neither a regular file nor a pipe",
    "check folder": "folder: must be a configuration file, not a folder",
    "compare --plan /dev/zero": "/dev/zero: is neither a regular file nor a pipe",
    f"{COMPARE} --results /dev/full": "/dev/full: is not a regular file",
    f"{COMPARE} --results pipe": "pipe: is not a regular file",
    f"{COMPARE} --results no/such/r.jsonl": "no/such/r.jsonl: there is no folder no/such",
    "compare --data /dev/zero --over format=bfp4": "/dev/zero: is not a regular file",
    f"{TEXT} --state /dev/full": "/dev/full: is not a regular file",
    "estimate nano.toml --shapes /dev/zero": "/dev/zero: is neither a regular file nor a pipe",
    RUN.replace("a.npz", "/dev/zero"): "/dev/zero: is not a regular file",
    "formats --data /dev/zero": "/dev/zero: is not a regular file",
}
AGAIN = "is given twice"
TWICE = {
    f"{RUN} --nest t_blocks=1,t_blocks=2": f"--nest: t_blocks {AGAIN}, 1 and 2",
    f"{RUN} --nest keep=none,keep=both": f"--nest: keep {AGAIN}, none and both",
    "check nano.toml --set array.rows=2 --set array.rows=4": (
        f"--set: array.rows {AGAIN}, as 2 and 4"
    ),
    "check nano.toml --set array={rows=2} --set array.rows=4": (
        "--set: array and array.rows give the same key twice"
    ),
    f"{ESTIMATE} --over array.rows=2 --over array.rows=4": f"--over: array.rows {AGAIN}",
    f"{COMPARE} --over format=bfp2": f"--over: format {AGAIN}",
    "compare nano.toml --configuration format=bfp2~format=bfp4": f"format {AGAIN}",
    "compare nano.toml --configuration hidden=8~hidden=9": f"hidden {AGAIN}, as 8 and 9",
    "compare nano.toml --configuration weight-decay=0~weight_decay=1": f"weight_decay {AGAIN}",
    f"{COMPARE} --configuration format=bfp2": f"format {AGAIN}, as bfp2 and bfp4",
    f"{ESTIMATE} --widths x=2,x=4": "--widths must give each of x, w, dy a single width",
    "formats --data a.npz --rounding x=nearest,x=nearest": "--rounding must give each of x, w, dy",
}
ENDINGS = {
    f"{TRAIN} --picture p.txt": "--picture must end in .png or .svg, not p.txt",
    "init my.conf": "FILE must end in .toml, not my.conf",
    "init nano.tml --force": "FILE must end in .toml, not nano.tml",
    f"{COMPARE} --results r.png": "--results must end in .jsonl, not r.png",
    f"{COMPARE} --out p.pdf": "--out must end in .png or .svg, not p.pdf",
    f"{ESTIMATE} --out p": "--out must end in .png or .svg, not p",
    "formats --data a.npz --out p.jpg": "--out must end in .png or .svg, not p.jpg",
    "synth nano.toml --target ecp5 --picture p": "--picture must end in .png or .svg, not p",
    "synth nano.toml --target ecp5 --out p.csv": "--out must end in .json, not p.csv",
    "synth nano.toml --target ecp5 --pnr --bitstream p.png": (
        "--bitstream must end in .bit, not p.png"
    ),
    "explain nano.toml -o p.png": "--out must end in .html or .htm, not p.png",
    RUN.replace("b.npz", "b.csv"): "--out must end in .npz, not b.csv",
    f"{TEXT} --state s.json": "--state must end in .npz, not s.json",
    f"{TRAIN} --trace w.txt".replace(
        "golden", "rtl"
    ): "--trace must end in .vcd or .fst, not w.txt",
}
FOLDERS = {
    "generate nano.toml -o no/such/dir": "no/such/dir: there is no folder no/such",
    "board litex nano.toml -o no/such/dir": "no/such/dir: there is no folder no/such",
    "init no/such/a.toml": "no/such/a.toml: there is no folder no/such",
    RUN.replace("b.npz", "no/b.npz"): "no/b.npz: there is no folder no",
    f"{TRAIN} --picture no/p.png": "no/p.png: there is no folder no",
    "explain nano.toml -o no/p.html": "no/p.html: there is no folder no",
    "synth nano.toml --target ecp5 --out no/p.json": "no/p.json: there is no folder no",
    f"{COMPARE} --out no/p.png": "no/p.png: there is no folder no",
    f"{ESTIMATE} --out no/p.png": "no/p.png: there is no folder no",
}
ALL = NUMBERS | DEVICES | TWICE | ENDINGS | FOLDERS


@pytest.mark.parametrize("command", ALL, ids=lambda text: text[:60])
def test_it_is_refused_in_words(files, tmp_path, command):
    before = sorted(path.name for path in tmp_path.iterdir())
    result = files(*(word.replace("~", " ") for word in command.split()))
    assert (result.code, result.out) == (2, "")
    assert ALL[command] in "\n".join(result.err)
    assert all(len(line) < 400 for line in result.err)
    assert sorted(path.name for path in tmp_path.iterdir()) == before
