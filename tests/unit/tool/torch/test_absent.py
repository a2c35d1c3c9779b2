"""Without torch: nothing needs it but diastole.torch, which says how to get it."""

import json
import subprocess
import sys

WITHOUT = "import sys; sys.modules['torch'] = None; "


def fresh(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)


def test_nothing_else_imports_torch():
    code = "import sys, diastole, json; diastole.GoldenDevice, diastole.Device, diastole.Config; "
    done = fresh(code + "print(json.dumps('torch' in sys.modules))")
    assert json.loads(done.stdout) is False


def test_what_is_missing_is_said():
    done = fresh(WITHOUT + "import diastole.torch")
    assert done.stderr.strip().splitlines()[-1] == (
        "ImportError: diastole.torch needs PyTorch, which is not installed: "
        "pip install diastole[torch]"
    )
