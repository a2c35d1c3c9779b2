"""Errors that a user can correct. The command line turns an error into an exit code.

An absent program or package is :class:`diastole_sim.system.programs.ToolMissing`, with exit code 3.
"""


class BadInput(Exception):
    """The user's input is wrong. ``problems`` has one line for each mistake. Exit code 2."""

    def __init__(self, *problems: str):
        super().__init__("\n".join(problems))
        self.problems = problems

    def within(self, where: object) -> "BadInput":
        """Return the error with ``where``, such as the path of a file, before each mistake."""
        return BadInput(*(f"{where}: {problem}" for problem in self.problems))


class CheckFailed(Exception):
    """The work was done or tried, and the hardware did not behave as required. Exit code 1."""
