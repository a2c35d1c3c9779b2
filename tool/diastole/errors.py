"""What can go wrong in a way that a user can mend; the command line turns each into an exit code.

A program or package that is absent is :class:`diastole_sim.system.programs.ToolMissing`, with exit
code 3.
"""


class BadInput(Exception):
    """The user's input is wrong. ``problems`` has one line for each mistake. Exit code 2."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems


class CheckFailed(Exception):
    """The work was done or tried, and the hardware did not do what it should. Exit code 1."""
