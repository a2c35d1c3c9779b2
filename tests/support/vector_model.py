"""A modelled vector unit and its chains, as tests need them."""

from diastole.config.presets import PRODUCTS_ONLY
from diastole_sim.perf import Memory
from diastole_sim.perf.modelled_vector import ChainTask, ModelledVector
from diastole_sim.spec.micro import Instruction, MicroOp, Source
from diastole_sim.spec.stream_table import Descriptor, Kind, Walk

NUMERICS = PRODUCTS_ONLY["nano"].numerics


def modelled_vector(**changes):
    """That of `nano`, but for the changes."""
    of_nano = {"block": 8, "specials": 2, "data_width": 128, "numerics": NUMERICS}
    return ModelledVector(**{**of_nano, "memory": Memory.axi(), **changes})


def move(source=Source.S0, **fields):
    """An instruction that copies."""
    return Instruction(op=MicroOp.MOV, a=source, **fields)


def task_of(program, *, inputs=(), outputs=(), rows=64, cols=64, **options):
    """A chain whose streams are of these kinds, from number 0 on."""
    by_columns, block = options.pop("by_columns", False), options.pop("block", 8)
    return ChainTask(
        program=program,
        inputs={n: kind_of(each) for n, each in enumerate(inputs)},
        outputs={n: kind_of(each) for n, each in enumerate(outputs)},
        walk=Walk(rows=rows, cols=cols, block=block, by_columns=by_columns),
        **options,
    )


def kind_of(stream):
    """A descriptor of a kind, or what is one."""
    return Descriptor(kind=stream) if isinstance(stream, Kind) else stream
