"""A mistyped name of any kind is answered with the nearest one."""

import numpy as np
import pytest

TRAIN = "train nano.toml --task digits"
SLIPS = {
    "chekc nano.toml": "check",
    "check nano.toml --sett a=b": "--set",
    "check nano.toml --set format.x=mxfp8_e4m33": "mxfp8_e4m3",
    "check nano.toml --set rounding.x=stochastic_a": "stochastic-a",
    "check nano.toml --set scale.x=celi": "ceil",
    "check nano.toml --set cell.pipeline=Full": "full",
    "check nano.toml --set numbers=ibm": "ibm-fp8",
    "check nano.toml --set special=posion": "poison",
    "train nano.toml --task txet": "text",
    f"{TRAIN} --optimiser adam": "--optimizer",
    f"{TRAIN} --lr 0.1": "--rate",
    f"{TRAIN} --batch-size 3": "--batch",
    f"{TRAIN} --optimizer adamW": "adamw",
    f"{TRAIN} --activation geul": "gelu",
    f"{TRAIN} --master bf61": "bf16",
    f"{TRAIN} --precision hihg": "high",
    f"{TRAIN} --backend gloden": "golden",
    "run nano.toml --op foward --in a.npz --out b.npz": "forward",
    "estimate --preset naon --shapes dlrm": "nano",
    "estimate nano.toml --shapes resnet50": "resnet-50",
    "estimate nano.toml --shapes dlrm --phases bakward": "backward",
    "estimate nano.toml --task digit": "digits or digits-mlp",
    "synth nano.toml --target ecp-5": "ecp5",
    "synth nano.toml --target ecp5 --device 85": "85k",
    "synth nano.toml --target ecp5 --pnr --placer haep": "heap",
    "compare nano.toml --over optimiser=sgd,adam": "optimizer",
    "compare nano.toml --over optimizer=sdg": "sgd",
    "compare --over preset=nanno": "nano",
    "compare --task digts --over format=bfp4": "digits",
    "formats --formats bpf4": "bfp4",
    "formats --data a.npz --rounding x=nearst": "nearest",
    "formats --data a.npz --rounding-kind lfrs": "lfsr",
    "board ulx3 nano.toml -o x": "ulx3s",
    "completion bsh": "bash",
    "init a.toml --numbers ibmfp8": "ibm-fp8",
}


@pytest.mark.parametrize("command", SLIPS)
def test_the_nearest_is_named(diastole, command):
    np.savez("a.npz", X=np.ones((2, 2), np.float32), W=np.ones((2, 2), np.float32))
    result = diastole(*command.split())
    assert (result.code, result.out) == (2, "")
    assert f"; did you mean {SLIPS[command]}?" in result.err[-1]


@pytest.mark.parametrize(
    "command, takers",
    [
        (
            "predict a.safetensors --graph net.py:net",
            "other commands take",
        ),
        ("program build a.toml --save x", "diastole train takes"),
        (
            "predict a.safetensors --epochs 3",
            "diastole train, diastole program build and diastole compare take",
        ),
        ("check a.toml --backend golden", "other commands take"),
    ],
)
def test_an_option_of_other_commands_names_the_commands(diastole, command, takers):
    """The nearest option of the command, such as --set for --save, would mislead."""
    result = diastole(*command.split())
    option = next(word for word in command.split() if word.startswith("--"))
    assert (result.code, result.out) == (2, "")
    assert f"; {takers} {option} (see" in result.err[-1]
