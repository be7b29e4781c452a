"""The journal of changes: what was about to be changed, and what came of it; never a payload or a secret.

A change is written down before it is sent and completed after its answer, a line each. A line without
its completion is a change that may or may not have been applied.
"""

from __future__ import annotations

import fcntl
import getpass
import json
import os
import socket
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emqctl import times

ROTATE_BYTES = 8_000_000
KEPT = 4  # older files: journal.1.jsonl is the youngest of them


def path_of(variables: Mapping[str, str]) -> Path | None:
    """Return where the journal of this user is, or None for a user without a home."""
    state, home = variables.get("XDG_STATE_HOME"), variables.get("HOME")
    if state:
        return Path(state, "emqctl", "journal.jsonl")
    return Path(home, ".local", "state", "emqctl", "journal.jsonl") if home else None


@dataclass(frozen=True)
class Change:
    """One entry: a batch of jobs, or one act on a queue or lane.

    ``state`` is ``done``, or ``unanswered`` where no answer was written down. ``jobs`` are the ids it was
    for, ``results`` how many of them came to what.
    """

    time: str
    command: str
    server: str
    queue: str
    lane: str | None
    state: str
    jobs: tuple[str, ...]
    results: dict[str, int]
    run: str
    batch: int
    user: str
    note: str | None


class Journal:
    """One run's pen. ``begin`` and ``end`` raise OSError where nothing can be written."""

    def __init__(self, path: Path, about: Mapping[str, str | None]) -> None:
        self._path = path
        self._about = {**about, "user": _user(), "host": socket.gethostname(), "run": os.urandom(6).hex()}
        self._batch = 0

    def begin(self, ids: Sequence[str]) -> None:
        """Write down what is about to be changed, before it is sent."""
        self._batch += 1
        self._write({"phase": "begin", "batch": self._batch, **self._about, "ids": list(ids)})

    def end(self, outcomes: Sequence[Sequence[str | None]]) -> None:
        """Write down what came of it: id, result, reason, place before and after, of each."""
        answered = not any("no-answer" in outcome for outcome in outcomes)
        if answered:
            whose = {"batch": self._batch, "run": self._about["run"]}
            self._write({"phase": "end", **whose, "outcomes": [list(each) for each in outcomes]})

    def _write(self, entry: Mapping[str, Any]) -> None:
        moment = times.from_ms(times.now_ms())
        line = json.dumps({"time": times.rfc3339(moment) if moment else None, **entry}) + "\n"
        with _locked(self._path) as handle:
            os.write(handle, line.encode("ascii"))


def read(path: Path) -> Iterator[Change]:
    """Yield the changes written down, oldest first; a line that is cut or foreign is passed over.

    Holds the changes that are not completed yet, so its memory grows with the runs that were killed.
    """
    open_changes: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in _entries(path):
        key = (str(entry.get("run")), int(entry.get("batch", 0)))
        if entry.get("phase") == "begin":
            open_changes[key] = entry
        elif key in open_changes:
            yield _change(open_changes.pop(key), entry.get("outcomes", []))
    for entry in open_changes.values():
        yield _change(entry, None)


def _entries(path: Path) -> Iterator[dict[str, Any]]:
    for file in (*(_older(path, number) for number in range(KEPT, 0, -1)), path):
        try:
            lines = file.open("rb")
        except FileNotFoundError:
            continue
        with lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict):
                    yield entry


def _change(begun: Mapping[str, Any], outcomes: Sequence[Sequence[Any]] | None) -> Change:
    results: dict[str, int] = {}
    for _id, result, reason, *_places in outcomes or ():
        word = str(reason or result)
        results[word] = results.get(word, 0) + 1
    return Change(
        time=str(begun.get("time")),
        command=str(begun.get("command")),
        server=str(begun.get("server")),
        queue=str(begun.get("queue")),
        lane=begun.get("lane"),
        state="unanswered" if outcomes is None else "done",
        jobs=tuple(map(str, begun.get("ids", ()))),
        results=results,
        run=str(begun.get("run")),
        batch=int(begun.get("batch", 0)),
        user=str(begun.get("user")),
        note=begun.get("note"),
    )


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """Open the journal for appending, alone; turn it over first when it has grown large."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    lock = os.open(path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if path.exists() and path.stat().st_size >= ROTATE_BYTES:
            for number in range(KEPT - 1, 0, -1):
                if _older(path, number).exists():
                    _older(path, number).replace(_older(path, number + 1))
            path.replace(_older(path, 1))
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            yield handle
        finally:
            os.close(handle)
    finally:
        os.close(lock)


def _older(path: Path, number: int) -> Path:
    return path.with_suffix(f".{number}.jsonl")


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())
