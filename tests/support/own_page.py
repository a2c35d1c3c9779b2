"""The files that the page on own activations and optimisers shows."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "own.md"
EXAMPLES = ("mish.py", "lion.py")
"""Names of its files, in their order."""


def write_examples(folder):
    """Write each block of code of the page as the file whose name stands before it."""
    text = PAGE.read_text()
    found = re.findall(r"in a file ([\w.]+):\n\n```python\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in found] == list(EXAMPLES)
    assert text.count("```python") == len(EXAMPLES)
    for name, code in found:
        (folder / name).write_text(code)
