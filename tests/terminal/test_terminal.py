"""emqctl at a real pseudo-terminal: tables, colour, width, Ctrl-C, and what `demo` leaves behind."""

from __future__ import annotations

import os
import re
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pytest
import redis
import worlds
from cli.running import EmqctlProcess

from emqctl.demo.server import PrivateServer

Terminal = Callable[..., "pexpect.spawn[bytes]"]

SGR = re.compile(rb"\x1b\[[0-9;]*m")
ESCAPE = b"\x1b"


@pytest.fixture
def terminal(server: PrivateServer) -> Iterator[Terminal]:
    """Start emqctl at a terminal of its own: 80 columns, unless told otherwise."""
    processes = []

    def start(*words: str, columns: int = 80, program: list[str] | None = None, **env: str | None) -> Any:
        variables = EmqctlProcess(server.url).variables(env)
        command = [sys.executable, "-m", "emqctl", *words] if program is None else program
        process = pexpect.spawn(
            command[0], command[1:], env=variables, dimensions=(24, columns), timeout=10, echo=False
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.close(force=True)


def end(process: Any) -> tuple[int, bytes]:
    """Return the exit code, and everything that was shown."""
    process.expect(pexpect.EOF)
    process.close()
    return process.exitstatus if process.exitstatus is not None else -process.signalstatus, process.before


def test_a_terminal_shows_a_table_in_colour(terminal: Terminal, world: worlds.World) -> None:
    code, shown = end(terminal("browse", "orders", "--state", "active", columns=200))
    assert code == 0
    assert b"\x1b[1mid" in shown
    assert re.search(rb"\x1b\[33mtrue *\x1b\[0m", shown)
    assert "───".encode() in shown
    assert world.ids["active.live_0"]["id"].encode() in shown
    assert set(SGR.findall(shown)) <= {b"\x1b[0m", b"\x1b[1m", b"\x1b[2m", b"\x1b[33m", b"\x1b[31m"}
    assert ESCAPE not in SGR.sub(b"", shown)


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}, {"NO_COLOR": "1", "FORCE_COLOR": "1"}], ids=str)
def test_without_colour_there_is_not_one_escape_byte(
    terminal: Terminal, world: worlds.World, env: dict[str, str]
) -> None:
    for words in (["browse", "orders", "-n", "45"], ["browse", "broken", "--state", "dead"], ["--help"]):
        _, shown = end(terminal(*words, **env))
        assert ESCAPE not in shown


def test_colour_can_be_had_or_refused_by_option(terminal: Terminal, world: worlds.World) -> None:
    assert ESCAPE in end(terminal("depth", "orders", "idle", "--color", "always", NO_COLOR="1"))[1]
    assert ESCAPE not in end(terminal("depth", "orders", "idle", "--color", "never"))[1]


def test_hostile_data_does_not_reach_the_terminal(terminal: Terminal, world: worlds.World) -> None:
    """Payloads and errors with escapes of every kind, in every format that a person may ask for."""
    for output in ("table", "plain", "csv"):
        for words in (["-n", "45"], ["--state", "dead", "-n", "0"]):
            _, shown = end(terminal("browse", "orders", *words, "-o", output, columns=120, NO_COLOR="1"))
            assert re.search(rb"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]", shown) is None
            text = shown.decode("utf-8")
            assert re.search("[\x80-\x9f\u202a-\u202e\u2066-\u2069]", text) is None


def test_a_table_takes_the_width_of_its_terminal(terminal: Terminal, world: worlds.World) -> None:
    for columns in (100, 120, 160):
        _, shown = end(terminal("browse", "orders", "-n", "3", "-q", columns=columns, NO_COLOR="1", COLUMNS=None))
        lines = shown.decode().splitlines()
        assert max(map(len, lines)) <= columns
        assert all(line.count("JOB") <= 1 for line in lines)


def test_a_narrow_terminal_cuts_no_id(terminal: Terminal, world: worlds.World) -> None:
    _, shown = end(terminal("browse", "orders", "-n", "3", "-q", columns=30, NO_COLOR="1", COLUMNS=None))
    assert len(re.findall(rb"JOB[0-9A-Za-z]{11} ", shown)) == 3


def test_a_pipe_gets_plain_whatever_the_terminal(terminal: Terminal, world: worlds.World) -> None:
    program = ["/bin/sh", "-c", f"{sys.executable} -m emqctl browse orders -n 2 -q | cat"]
    _, shown = end(terminal(program=program))
    assert shown.count(b"\t") == 10
    assert ESCAPE not in shown


def test_a_machine_format_at_a_terminal_is_what_it_is_elsewhere(terminal: Terminal, world: worlds.World) -> None:
    _, shown = end(terminal("depth", "orders", "-o", "json"))
    assert shown.replace(b"\r\n", b"\n") == (
        b'{"schema": "emqctl/depth/1", "records": [\n  {"queue": "orders", "waiting": 443}\n], "more": false}\n'
    )


def test_an_ascii_terminal_shows_everything_in_ascii(terminal: Terminal, world: worlds.World) -> None:
    code, shown = end(terminal("depth", PYTHONIOENCODING="ascii", NO_COLOR="1"))
    assert code == 3
    assert shown.isascii()
    assert rb"\u00fc" in shown


def test_no_pager_is_ever_started(terminal: Terminal, world: worlds.World) -> None:
    code, shown = end(terminal("browse", "orders", "-n", "0", PAGER="false", NO_COLOR="1"))
    assert code == 0
    assert shown.count(b"JOB") >= 443


def test_ctrl_c_ends_a_run_that_waits_with_130(terminal: Terminal, redis_client: redis.Redis) -> None:
    redis_client.execute_command("CLIENT", "PAUSE", 3000, "ALL")
    process = terminal("depth", "--request-timeout", "10s")
    time.sleep(0.5)
    process.sendintr()
    code, shown = end(process)
    assert code == 130
    assert b"Traceback" not in shown


def test_a_password_is_asked_for_and_not_shown(
    terminal: Terminal, world: worlds.World, redis_client: redis.Redis
) -> None:
    redis_client.config_set("requirepass", "s3cret")
    process = terminal("depth", "orders", "--askpass", NO_COLOR="1")
    process.expect(rb"Password for redis://127.0.0.1:\d+/0: ")
    process.sendline(b"s3cret")
    code, shown = end(process)
    assert code == 0
    assert b"443" in shown
    assert b"s3cret" not in shown


def test_a_prompt_for_a_password_can_be_left_with_ctrl_c(terminal: Terminal, redis_client: redis.Redis) -> None:
    process = terminal("depth", "orders", "--askpass", NO_COLOR="1")
    process.expect(rb"Password for ")
    process.sendintr()
    code, shown = end(process)
    assert code == 130
    assert b"Traceback" not in shown


# demo


@pytest.fixture
def folder() -> Iterator[Path]:
    """The place of the demo's temporary folder; empty after each test."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as root:
        yield Path(root)
        deadline = time.monotonic() + 5
        while any(Path(root).iterdir()):
            assert time.monotonic() < deadline, "the demo left its folder"
            time.sleep(0.01)


def start_demo(terminal: Terminal, folder: Path) -> tuple[Any, str, int]:
    """Start `emqctl demo`; return its process, URL and the process of its server."""
    process = terminal("demo", "--quiet-world", columns=120, NO_COLOR="1", TMPDIR=str(folder))
    process.expect(rb"export EMQCTL_URL=(redis://127\.0\.0\.1:\d+/0)")
    [pid] = folder.glob("emqctl-*/pid")
    return process, process.match[1].decode(), int(pid.read_text())


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        time.sleep(0.01)
    return False


def test_demo_shows_the_world_and_a_url_that_works_until_ctrl_c(terminal: Terminal, folder: Path) -> None:
    process, url, server = start_demo(terminal, folder)
    shown = process.before
    for queue in (b"orders", b"emails", b"invoices", b"frozen"):
        assert queue in shown
    assert b"waiting" in shown
    code, elsewhere = end(terminal("depth", "orders", EMQCTL_URL=url, NO_COLOR="1"))
    assert (code, elsewhere) == (0, b"300\r\n")
    process.sendintr()
    code, rest = end(process)
    assert code == 130
    assert b"Traceback" not in rest
    assert is_gone(server)


def test_demo_that_is_killed_leaves_no_server(terminal: Terminal, folder: Path) -> None:
    process, _, server = start_demo(terminal, folder)
    process.kill(signal.SIGKILL)
    code, _ = end(process)
    assert code == -signal.SIGKILL
    assert is_gone(server)


def test_a_terminal_that_is_closed_ends_the_demo(terminal: Terminal, folder: Path) -> None:
    process, _, server = start_demo(terminal, folder)
    process.close(force=False)
    assert is_gone(server)


def test_demo_runs_one_command_as_at_this_terminal(terminal: Terminal, folder: Path) -> None:
    code, shown = end(terminal("demo", "--", "browse", "orders", "-n", "20", columns=120, TMPDIR=str(folder)))
    assert code == 0
    assert b"\x1b[1mid" in shown
    assert len(re.findall(rb"JOB[0-9A-Za-z]{11} +\S+ ago", shown)) == 20


def test_a_living_demo_ends_at_ctrl_c_too(terminal: Terminal, folder: Path) -> None:
    process = terminal("demo", columns=120, NO_COLOR="1", TMPDIR=str(folder))
    process.expect(rb"export EMQCTL_URL=")
    time.sleep(0.3)
    process.sendintr()
    code, rest = end(process)
    assert code == 130
    assert b"Traceback" not in rest
