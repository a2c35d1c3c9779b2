"""Says on which simulators the benches ran."""

from rtl.simulate import missing


def pytest_terminal_summary(terminalreporter):
    for program, install in missing().items():
        terminalreporter.write_line(
            f"tests/rtl did not run on {program}, which is not on PATH; to have it: {install}"
        )
