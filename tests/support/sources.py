"""The sources of the three packages as syntax trees, for tests of the house's rules."""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "diastole_hw": ROOT / "hw" / "diastole_hw",
    "diastole_sim": ROOT / "sim" / "diastole_sim",
    "diastole": ROOT / "tool" / "diastole",
}


def sources(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*.py"))
    assert found, f"{folder} has no sources"
    return found


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(), str(path))


def module_name(path: Path, root: Path) -> str:
    parts = path.relative_to(root).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imports(path: Path, *, runtime_only: bool = False) -> Iterator[str]:
    """Modules that a file imports anywhere, also inside functions, with the names taken from them.

    ``runtime_only``: but not those for the type checker alone. Relative imports are left out.
    """
    whole = tree(path)
    skipped: set[ast.AST] = set()
    if runtime_only:
        for node in ast.walk(whole):
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
                skipped.update(inner for part in node.body for inner in ast.walk(part))
    for node in ast.walk(whole):
        if node in skipped:
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
