"""The README says what emqctl does: its console blocks are run, in the sample world of a fixed moment."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import recording
import redis
import worlds

from emqctl.cli.exit_codes import EXIT_CODES
from emqctl.cli.root import COMMANDS
from emqctl.demo.server import PrivateServer
from emqctl.demo.world import commands

README = Path(__file__).parents[2] / "README.md"
SESSION = README.parent / ".github" / "session.svg"
AS_OF_MS = 1_796_061_600_000  # 2026-11-30T18:00:00Z, so that the ids in the README stay the same
BLOCK = re.compile(r"```console\n\$ (.+)\n((?:.*\n)*?)```\n")


def blocks() -> list[tuple[str, str]]:
    return [(block[1], block[2]) for block in BLOCK.finditer(README.read_text("utf-8"))]


def output_of(line: str, server: PrivateServer, folder: Path) -> str:
    (folder / "emqctl").write_text(f'#!/bin/sh\nexec {sys.executable} -m emqctl "$@"\n')
    (folder / "emqctl").chmod(0o755)
    variables = {name: value for name, value in os.environ.items() if not name.startswith("EMQCTL_")}
    variables |= {"EMQCTL_URL": server.url, "PATH": f"{folder}:{variables['PATH']}"}
    done = subprocess.run(
        ["/bin/sh", "-c", line], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    return done.stdout


@pytest.mark.parametrize(("line", "shown"), blocks(), ids=[line for line, _ in blocks()])
def test_what_the_readme_shows_is_what_is_printed(
    line: str,
    shown: str,
    server: PrivateServer,
    redis_client: redis.Redis,
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    worlds.send(redis_client, commands(AS_OF_MS))
    printed = output_of(line, server, tmp_path)
    if request.config.getoption("update_golden"):
        text = README.read_text("utf-8")
        README.write_text(text.replace(f"$ {line}\n{shown}```", f"$ {line}\n{printed}```"), "utf-8")
    else:
        assert printed == shown


def test_the_recorded_session_is_what_a_terminal_shows(
    server: PrivateServer, redis_client: redis.Redis, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """How rich draws it is its own affair: compared is the text."""
    worlds.send(redis_client, commands(AS_OF_MS))
    variables = {name: value for name, value in os.environ.items() if not name.startswith(("EMQCTL_", "NO_COLOR"))}
    session = recording.recorded(server.url, {**variables, "XDG_STATE_HOME": str(tmp_path)})
    svg = recording.drawn(session)
    if request.config.getoption("update_golden"):
        SESSION.parent.mkdir(exist_ok=True)
        SESSION.write_text(svg, "utf-8")
    assert recording.text_of(svg) == recording.text_of(SESSION.read_text("utf-8"))
    assert [line for line in recording.text_of(svg) if line.startswith("$ ")] == [
        f"$ {each}" for each in recording.LINES
    ]
    assert f"({SESSION.relative_to(README.parent)})" in README.read_text("utf-8")


def test_the_readme_begins_with_its_two_commands() -> None:
    first, second = re.findall(r"```sh\n(.*)\n```", README.read_text("utf-8"))[:2]
    venv = "python3 -m venv .venv && .venv/bin/"
    assert first == f"{venv}pip install -q '.[demo]' && .venv/bin/emqctl demo -- browse orders -n 20"
    assert second == f"{venv}pip install -q -e '.[test]' && .venv/bin/python -m pytest"


def test_the_readme_speaks_of_every_command() -> None:
    text = README.read_text("utf-8")
    assert [name for name in COMMANDS if not re.search(rf"(emqctl |`){name}\b", text)] == []


def test_the_readme_lists_every_exit_code_of_an_error() -> None:
    rows = set(re.findall(r"^\| (\d+) \|", README.read_text("utf-8"), re.MULTILINE))
    assert rows >= {str(code) for code, _ in EXIT_CODES.values()}
