"""A run that could not try everything says so, and fails where it had to."""

from __future__ import annotations

import shutil
from types import SimpleNamespace
from typing import Any

import leftout
import pytest


@pytest.fixture
def without_zsh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None if program == "zsh" else f"/bin/{program}")


def finished(status: pytest.ExitCode) -> Any:
    session: Any = SimpleNamespace(exitstatus=status)
    leftout.pytest_sessionfinish(session)
    return session.exitstatus


def test_what_needs_a_missing_program_is_not_collected(without_zsh: None) -> None:
    assert leftout.needs("bash")
    assert not leftout.needs("zsh")
    with pytest.raises(KeyError, match="tcsh"):
        leftout.needs("tcsh")


def test_the_run_names_what_it_left_out(without_zsh: None) -> None:
    written: list[str] = []
    reporter: Any = SimpleNamespace(write_line=lambda line, **_markup: written.append(line))
    leftout.pytest_terminal_summary(reporter)
    assert written == ["left out: completion in zsh: zsh is not installed"]


def test_a_run_that_must_be_complete_fails_without(without_zsh: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("EMQCTL_TEST_COMPLETE", raising=False)
    assert finished(pytest.ExitCode.OK) == pytest.ExitCode.OK
    monkeypatch.setenv("EMQCTL_TEST_COMPLETE", "1")
    assert finished(pytest.ExitCode.OK) == pytest.ExitCode.TESTS_FAILED
    assert finished(pytest.ExitCode.INTERRUPTED) == pytest.ExitCode.INTERRUPTED


def test_a_run_with_everything_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: f"/bin/{program}")
    monkeypatch.setenv("EMQCTL_TEST_COMPLETE", "1")
    assert finished(pytest.ExitCode.OK) == pytest.ExitCode.OK
