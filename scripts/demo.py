"""The demonstration: generates the `nano` machine and trains it on handwritten digits.

    python scripts/demo.py FOLDER

Every step, forward, loss, backward and update, is done by the generated Verilog; the host loads
data and a program. Leaves in the folder nano.toml, product/, result.json (the keys of `train
--json`, and under `verification` what was compared) and training.png. The weights must be those of
the golden model, bit for bit; so must every tensor that any command writes in the first steps.
Exits with 1 if something differs, or if the accuracy on the held-out fifth is below 95 %.
"""

import argparse
import json
import sys
from dataclasses import replace
from pathlib import Path

from diastole.backend import program_limits
from diastole.cli import exit_code
from diastole.commands.train import describe, judge
from diastole.commands.train_program import train_on
from diastole.config.file import load_config, to_toml
from diastole.config.presets import PRESETS
from diastole.console import fail, note
from diastole.execution import Execution
from diastole.product.generate import generate
from diastole.report.golden_check import checked_record
from diastole_sim.train.report import write_picture
from diastole_sim.train.tasks import find_task
from diastole_sim.trainer.job import ProgramResult
from diastole_sim.trainer.options import ProgramOptions

TASK = "digits"
SEED = 0
CHECKED = 20
"""Steps of which every tensor is compared, command by command."""
NEXT = """\
what these causes of waiting are: docs/training.md
the golden model has the same weights, and the same {compared} numbers in the first {checked} steps
open {folder}/training.png: loss and accuracy, as the gates give them
in {folder}: result.json, all numbers; product, the Verilog and what belongs to it
next, after source .venv/bin/activate:
  diastole explain --preset pico -o page.html                 a product, cycle by cycle
  diastole estimate {folder}/nano.toml --shapes resnet-50     what a network's layers cost
  diastole train {folder}/nano.toml --task digits --optimizer adamw --activation gelu
  diastole train {folder}/nano.toml --task digits --verify \\
    --set format.x=mxfp8_e4m3 --set format.w=mxfp8_e4m3 --set format.dy=mxfp8_e5m2
                                                              the same in another format"""
MIN_ACCURACY = 0.95


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nano.toml").write_text(to_toml(PRESETS["nano"]))
    note(f"generating {folder / 'product'} from {folder / 'nano.toml'}: about 10 seconds")
    generate(load_config(folder / "nano.toml"), folder / "product")
    note("compiling its Verilog, once: half a minute; then training, about as long")
    simulated = Execution(seed=SEED, product=folder / "product")
    result = train(simulated)
    checked = train(simulated, steps=CHECKED, verify=True)
    golden = train(Execution(backend="golden", seed=SEED))
    record = checked_record(result, compared=checked, golden=golden)
    (folder / "result.json").write_text(json.dumps(record, indent=2) + "\n")
    write_picture(result, folder / "training.png")
    print(describe(result))
    code = max(judge(result, MIN_ACCURACY), judge(checked, None))
    if result.weights_sha256 != golden.weights_sha256:
        fail(f"the golden model has other weights: {golden.weights_sha256}")
        return 1
    print(NEXT.format(folder=folder, compared=checked.compared, checked=CHECKED))
    return code


def train(execution: Execution, *, steps: int | None = None, verify: bool = False) -> ProgramResult:
    """The task, on the generated Verilog or on the golden model."""
    config = PRESETS["nano"]
    options = ProgramOptions(limits=program_limits(config))
    task = find_task(TASK)
    task = replace(task, steps=steps or task.steps)
    return train_on(config, task, options, execution, verify=verify)


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments().folder)))
