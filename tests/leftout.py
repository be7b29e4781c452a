"""What is tried only where this machine has the program for it, and how a run says that it was not.

``conftest.py`` takes over the two hooks. With ``EMQCTL_TEST_COMPLETE=1`` a run that left something out fails.
"""

from __future__ import annotations

import os
import shutil

import pytest

#: What is left out without a program.
NEEDED = {
    "bash": "completion in bash",
    "zsh": "completion in zsh",
    "fish": "completion in fish",
    "groff": "man pages read by groff",
    "mandoc": "man pages read by mandoc",
    "man": "man pages found by man",
}


def needs(program: str) -> bool:
    """Tell whether what needs a program is to be collected."""
    if program not in NEEDED:
        raise KeyError(f"say in leftout.NEEDED what is left out without {program}")
    return shutil.which(program) is not None


def left_out() -> list[str]:
    """Return what this machine cannot try, a line each."""
    return [f"{what}: {program} is not installed" for program, what in NEEDED.items() if not needs(program)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Name what was left out."""
    for line in left_out():
        terminalreporter.write_line(f"left out: {line}", yellow=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run that must leave nothing out."""
    if os.environ.get("EMQCTL_TEST_COMPLETE") == "1" and left_out() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
