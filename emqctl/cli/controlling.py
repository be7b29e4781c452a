"""What the commands that control a queue or a lane have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

import click

from emqctl.branded import BrandedId
from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.changing import ACCEPT_VERSION, NOTE, refuse_read_only
from emqctl.cli.options import Function, options
from emqctl.cli.session import Session
from emqctl.queues import Queue


@dataclass(frozen=True)
class ControlManner:
    """How a change of a queue or lane is made."""

    dry_run: bool
    accept_version: str | None
    note: str | None


def control_options(function: Function) -> Function:
    """Add ``--dry-run``, ``--note`` and ``--accept-version``; the command receives them as ``manner``."""

    @wraps(function)
    def gathered(*arguments: Any, **given: Any) -> Any:
        manner = ControlManner(*(given.pop(name) for name in ("dry_run", "accept_version", "note")))
        return function(*arguments, manner=manner, **given)

    return options(
        click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing."),
        NOTE,
        ACCEPT_VERSION,
    )(cast("Function", gathered))


@contextmanager
def controlled(session: Session, queue: str, manner: ControlManner) -> Iterator[Queue]:
    """Yield a queue that may be changed: in use or idle, of a known wire version, not read-only."""
    refuse_read_only(session, dry_run=manner.dry_run)
    with session.server() as server:
        target = Queue(server, queue)
        target.look(counting=True)
        if not manner.dry_run:
            server.check_writes(manner.accept_version)
        yield target


def control(
    session: Session, queue: Queue, lane: BrandedId | None, manner: ControlManner, done: str, act: Callable[[], bool]
) -> bool:
    """Make a change, write it down, print it with ``-o`` or ``-v``; tell whether it changed anything."""
    name = None if lane is None else str(lane)
    pen = None if manner.dry_run else session.open_journal(queue.name, lane=name, note=manner.note)
    if pen:
        pen.begin(())
    session.shield.begin()
    changed = act()
    result = (f"would-{done}" if manner.dry_run else done) if changed else "skipped"
    outcome = Outcome(None, result, None if changed else "already", lane=name)
    if pen:
        pen.end([outcome])
    session.shield.end()
    if session.chose_output or session.is_verbose or manner.dry_run:
        session.emit([outcome], Outcome, columns=COLUMNS)
    return changed
