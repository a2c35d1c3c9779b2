"""What was measured, over all runs of the bench: bench/results.json, and docs/results.md of it."""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
MEMORY = ROOT / "bench" / "results.json"
DOCUMENT = ROOT / "docs" / "results.md"
INTRODUCTION = """\
# Results

This page lists every figure of the bench with the command that measures the figure. `make bench`
adds the figures of a run to the page, and keeps the figures that the run does not measure. Rows
that say "not measured yet" have no figure of the present bench; [figures.md](figures.md) has the
figures that matter, measured on earlier versions. A row without a goal has an empty cell.
"""


def remembered(measured, items):
    """Keep what was measured before, replace what ``measured`` has anew, drop figures that are
    gone; return all by test, in the order of ``items``."""
    stored = json.loads(MEMORY.read_text()) if MEMORY.is_file() else {}
    merged = stored | {
        key: rows for key, rows in measured.items() if rows
    }  # a skipped figure has none
    everything = {key: merged[key] for key in map(key_of, items) if key in merged}
    MEMORY.write_text(json.dumps(everything, indent=1) + "\n")
    return everything


def key_of(item):
    return f"{Path(item.path).stem.removeprefix('measure_')}: {item.name}"


def values_of(item):
    return item.callspec.params if hasattr(item, "callspec") else {}


def write_document(everything, items):
    """Write a section for each file, with a row for each number, and for what was not measured."""
    sections = {}
    for item in items:
        figure, values = item.function.figure, values_of(item)
        title = figure.title(values)
        rows = everything.get(key_of(item), {title: "not measured yet"})
        heading = item.module.__doc__.split("\n\n")[0].split(". ")[0].rstrip(".")
        section = sections.setdefault(" ".join(heading.split()), [])
        command = f"`pytest bench -k {item.function.__name__}`"
        section += [
            f"| {what} | {figure.target(values)} | {measured} | {command} |"
            for what, measured in rows.items()
        ]
    head = ["", "| what | goal | measured | command |", "| --- | --- | --- | --- |"]
    lines = [line for name, rows in sections.items() for line in ("", f"## {name}", *head, *rows)]
    DOCUMENT.write_text(INTRODUCTION + "\n".join(lines) + "\n")
