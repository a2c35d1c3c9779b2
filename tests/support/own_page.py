"""The files that the page on own activations and optimisers shows, and others of their kind."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "own.md"
EXAMPLES = ("mish.py", "lion.py", "log_cosh.py")
"""Names of its files, in their order."""


def write_examples(folder):
    """Write each block of code of the page as the file whose name stands before it."""
    text = PAGE.read_text()
    found = re.findall(r"in a file ([\w.]+):\n\n```python\n(.*?)```", text, re.DOTALL)
    assert [name for name, _ in found] == list(EXAMPLES)
    assert text.count("```python") == len(EXAMPLES)
    for name, code in found:
        (folder / name).write_text(code)


ACTIVATIONS = '''
from diastole_sim.program.chains.activations import Activation
from diastole_sim.spec.stream_table import Kind


def softsign():
    """z / (1 + |z|); keeps the value a: its derivative is (1 - |a|)^2."""
    return Activation(
        name="softsign",
        forward="""
            r1 = max r0 -r0
            r1 = add 1 r1
            r1 = rcp r1
            r0 = mul r0 r1 -> o0
            mov r0 -> o1
        """,
        keeps="the value",
        backward="""
            r1 = mov s1
            r1 = max r1 -r1
            r1 = add 1 -r1
            r1 = mul r1 r1
            r0 = mul s0 r1 -> o0
        """,
    )


def square():
    """z^2 / 2; keeps z, which is its derivative, in bfloat16."""
    return Activation(
        name="square",
        forward="""
            mov r0 -> o1
            r1 = mul r0 K[half]
            r0 = mul r0 r1 -> o0
        """,
        keeps="z",
        kept=(Kind.BF16,),
        constants={"half": 0.5},
    )


step = Activation(
    name="step",
    forward="r1 = gt r0 0 -> o1\\nmov r1 -> o0",
    kept=(Kind.MASK,),
    keeps="nothing that is read",
    backward="r0 = mov s0 -> o0",
)
"""1 where z > 0, else 0; its gradient is passed straight through."""
'''
"""By what they keep: the value, z, or nothing that is read."""
SIGNUM = '''
from diastole_sim.program.chains.updates import update_chain


class Signum:
    """w = w - 0.01 sign(g): nothing is kept, and nothing changes from step to step."""

    def __init__(self, rate):
        self.decay = rate

    def chain(self, options):
        _, g = options.gradient()
        text = f"""
            r1 = mul {g} K[big]
            r1 = max r1 -1
            r1 = min r1 1
            r2 = mad r1 K[lr] s1 -> o0
        """
        constants = {"big": 2.0**127, "lr": None}
        return update_chain("signum", options, text, state=(), constants=constants)

    def constants(self):
        return {"lr": -0.01}

    def of_step(self, step):
        return {}
'''
