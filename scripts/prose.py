"""Measures how plainly docstrings, documents and error messages are written.

    python scripts/prose.py

Prints the figures of every package, of every document and of the messages of refusals. Exit 1 if a
figure is above its limit. The limits are in scripts/prose.toml: limits of all texts, and higher
limits of some texts with the reason.
"""

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from diastole.cli import exit_code
from diastole.console import say
from support.messages import figures
from support.prose import measured, problems, read_limits


def main() -> int:
    figures_of = measured() | {"messages of refusals": figures()}
    say(f"{'text':36} {'vague':>6} {'headless':>9} {'sentences':>10} {'lines':>6}")
    for name, f in figures_of.items():
        say(f"{name:36} {f.vague:6.1f} {f.headless:8.1f}% {f.sentences:10} {f.lines:6}")
    messages = problems(figures_of, *read_limits())
    for each in messages:
        print(each, file=sys.stderr)
    return int(bool(messages))


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__.splitlines()[0]).parse_args()
    sys.exit(exit_code(main))
