"""The demonstration: generates the `nano` machine and trains it on handwritten digits.

    python scripts/demo.py FOLDER

Leaves in it nano.toml, product/, result.json (the keys of `train --json`)
and training.png. Every tensor of every step is compared with the golden model, bit for bit. Exits
with 1 if one differs, or if the accuracy on the held-out fifth is below 95 %.
"""

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path

from diastole.backend import make_device
from diastole.cli import exit_code
from diastole.commands.progress import progress
from diastole.commands.train import describe, judge
from diastole.config.file import read, to_toml
from diastole.config.presets import PRESETS
from diastole.console import note
from diastole.product.generate import generate
from diastole_sim.train import TrainResult, run_task
from diastole_sim.train.report import write_picture

TASK = "digits"
SEED = 0
NEXT = """\
utilisation {utilisation:.1%}: products of 64 x 64 x 64 and less wait for their first blocks
and for their last results; one of 512 x 512 x 512 keeps the same machine 99.9 % busy
open {folder}/training.png: loss and accuracy, as the gates give them
in {folder}: result.json, all numbers; product, the Verilog and what belongs to it
next, after source .venv/bin/activate:
  diastole explain --preset pico -o page.html                 a product, cycle by cycle
  diastole estimate {folder}/nano.toml --shapes resnet-50     what a network's layers cost
  diastole train {folder}/nano.toml --task digits --verify \\
    --set format.x=mxfp8_e4m3 --set format.w=mxfp8_e4m3 --set format.dy=mxfp8_e5m2
                                                              the same in another format"""
MIN_ACCURACY = 0.95


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "nano.toml").write_text(to_toml(PRESETS["nano"]))
    note(f"generating {folder / 'product'} from {folder / 'nano.toml'}: some 5 seconds")
    generate(read(folder / "nano.toml"), folder / "product")
    note("compiling its Verilog, once: half a minute; then training, somewhat less")
    result = train(folder / "product")
    (folder / "result.json").write_text(json.dumps(result.to_json(), indent=2) + "\n")
    write_picture(result, folder / "training.png")
    print(describe(result))
    print(NEXT.format(folder=folder, utilisation=result.utilisation))
    return judge(result, MIN_ACCURACY)


def train(product: Path) -> TrainResult:
    """Trains on the generated Verilog, with the golden model beside it."""
    config = PRESETS["nano"]
    with ExitStack() as stack:
        device = stack.enter_context(make_device("rtl", config, seed=SEED, product=product))
        golden = stack.enter_context(make_device("golden", config, seed=SEED))
        report = stack.enter_context(progress(f"{TASK} on the generated Verilog"))
        return run_task(
            TASK,
            device,
            backend="rtl",
            seed=SEED,
            reference=golden,
            multipliers=config.macs,
            progress=report,
        )


def read_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(exit_code(lambda: main(read_arguments().folder)))
