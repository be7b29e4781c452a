"""Running emqctl: in this process with streams that are data, or as a process of its own."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock

import emqctl
from emqctl import times
from emqctl.cli.environment import Environment
from emqctl.cli.root import run
from emqctl.cli.session import Session

PACKAGE = Path(emqctl.__file__).parent
STAND_IN = "\ue000"  # for a NUL in a csv
INHERITED = ("PATH", "HOME", "XDG_STATE_HOME", "EMQCTL_SERVER_BINARY")
DEADLINE_S = 30  # nothing a test runs takes longer


@dataclass(frozen=True)
class Result:
    """What a run printed, and its exit code."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def out(self) -> str:
        """Standard output as text."""
        return self.stdout.decode("utf-8")

    @property
    def err(self) -> str:
        """Standard error as text."""
        return self.stderr.decode("utf-8")

    @property
    def lines(self) -> list[str]:
        """Lines of standard output; a line ends at LF alone."""
        return self.out.split("\n")[:-1]

    @property
    def cells(self) -> list[list[str]]:
        """Rows of plain output."""
        return [line.split("\t") for line in self.lines]

    @property
    def json(self) -> Any:
        """Standard output read as one JSON document."""
        return json.loads(self.stdout)

    @property
    def records(self) -> list[dict[str, Any]]:
        """The records of a json document, of jsonl, or of csv (where every value is text)."""
        if self.stdout.startswith(b'{"schema"'):
            records: list[dict[str, Any]] = self.json["records"]
            return records
        if self.stdout.startswith(b"{") or not self.stdout:
            return [json.loads(line) for line in self.lines]
        text = self.out.replace("\0", STAND_IN)  # before Python 3.11 its reader gave up at a NUL
        rows = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        return [{name: value.replace(STAND_IN, "\0") for name, value in row.items()} for row in rows]

    @property
    def error(self) -> dict[str, Any]:
        """The error on standard error, where that is JSON lines."""
        [error] = [line["error"] for line in map(json.loads, self.err.splitlines()) if "error" in line]
        return dict(error)

    @property
    def summary(self) -> tuple[int, str, str]:
        """Exit code, standard output, standard error: all of a run at once."""
        return self.code, self.out, self.err


def unescape(cell: str) -> bytes:
    """Read a cell of plain output back; an empty value and an absent one are both ``-``."""
    return b"" if cell == "-" else b"".join(_meant(token) for token in _TOKEN.findall(cell))


_TOKEN = re.compile(r"(?:\\u[0-9a-f]{4})+|\\x[0-9a-f]{2}|\\[\\tnr]|[^\\]+")
_SHORT = {r"\\": b"\\", r"\t": b"\t", r"\n": b"\n", r"\r": b"\r"}


def _meant(token: str) -> bytes:
    if token[:2] == r"\u":  # UTF-16, so that two of them can be one character
        return bytes.fromhex(token.replace(r"\u", "")).decode("utf-16-be").encode()
    return bytes.fromhex(token[2:]) if token[:2] == r"\x" else _SHORT.get(token, token.encode())


def rfc3339(unix_ms: int) -> str:
    """Return a moment as emqctl prints and reads it."""
    moment = times.from_ms(unix_ms)
    assert moment is not None
    return times.rfc3339(moment)


class Stream(io.TextIOWrapper):
    """A standard stream in memory."""

    def __init__(self, data: bytes = b"", *, terminal: bool = False, encoding: str = "utf-8", errors: str) -> None:
        self.memory = io.BytesIO(data)
        self.terminal = terminal
        super().__init__(self.memory, encoding=encoding, errors=errors, newline="")

    def isatty(self) -> bool:
        """Tell whether the test wants a terminal here."""
        return self.terminal

    def written(self) -> bytes:
        """Return everything that was written."""
        self.flush()
        return self.memory.getvalue()


class Emqctl:
    """``emqctl(*words)`` runs a command line in this process."""

    def __init__(self, url: str) -> None:
        self.url = url

    def __call__(
        self,
        *words: str,
        stdin: bytes = b"",
        tty: bool = False,
        columns: int = 80,
        encoding: str = "utf-8",
        env: Mapping[str, str | None] | None = None,
        url: str | None = "",
    ) -> Result:
        """Run a command line; ``url`` None leaves EMQCTL_URL unset, ``tty`` makes all three streams a terminal."""
        variables = variables_of(self.url if url == "" else url, {"COLUMNS": str(columns), **(env or {})})
        ins = Stream(stdin, terminal=tty, encoding=encoding, errors="surrogateescape")
        out = Stream(terminal=tty, encoding=encoding, errors="strict")
        err = Stream(terminal=tty, encoding=encoding, errors="backslashreplace")
        session = Session(Environment(variables, ins, out, err))
        with ours(variables), redirect_stdout(out), redirect_stderr(err):
            code = run(words, session)
        return Result(code, out.written(), err.written())


class Process(subprocess.Popen[bytes]):
    """A process that does not outlive its ``with`` block."""

    def __exit__(self, *_: object) -> None:
        self.kill()
        super().__exit__(None, None, None)


class EmqctlProcess:
    """``emqctl_process(*words)`` runs ``python -m emqctl`` to its end; ``start`` leaves it running."""

    def __init__(self, url: str, env: Mapping[str, str | None] | None = None) -> None:
        self.url = url
        self.env = env or {}

    def __call__(self, *words: str | bytes, stdin: bytes = b"", **options: Any) -> Result:
        """Run a command line in a process of its own."""
        with self.start(*words, stdin=subprocess.PIPE, **options) as process:
            out, err = process.communicate(stdin, timeout=DEADLINE_S)
        return Result(process.returncode, out or b"", err or b"")

    def start(
        self,
        *words: str | bytes,
        env: Mapping[str, str | None] | None = None,
        url: str | None = "",
        python: Sequence[str] = ("-m", "emqctl"),
        **options: Any,
    ) -> Process:
        """Start it; ``options`` are those of Popen, ``python`` what the interpreter runs."""
        return Process(
            [sys.executable, *python, *words],
            env=self.variables(env, url),
            **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options},
        )

    def variables(self, env: Mapping[str, str | None] | None = None, url: str | None = "") -> dict[str, str]:
        """Return the whole environment of a process."""
        path = os.pathsep.join([str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])])
        return variables_of(self.url if url == "" else url, {"PYTHONPATH": path, **self.env, **(env or {})})


def variables_of(url: str | None, env: Mapping[str, str | None]) -> dict[str, str]:
    """Return fixed variables, those of ``env`` over them; None takes one away."""
    inherited = {name: os.environ[name] for name in INHERITED if name in os.environ}
    fixed = {"TZ": "UTC", "LC_ALL": "C.UTF-8", "TERM": "xterm", "EMQCTL_URL": url}
    return {name: value for name, value in {**inherited, **fixed, **env}.items() if value is not None}


class ours:  # noqa: N801 - reads as a word in `with ours(variables):`
    """Give this process the variables, and the time zone they name, while the block lasts."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self._patch = mock.patch.dict(os.environ, variables, clear=True)

    def __enter__(self) -> None:
        self._patch.start()
        time.tzset()

    def __exit__(self, *_: object) -> None:
        self._patch.stop()
        time.tzset()
