"""What the commands that control a queue or a lane have in common."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import click

from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.changing import refuse_read_only
from emqctl.cli.options import Function, options
from emqctl.cli.session import Session
from emqctl.queues import Queue


def control_options(function: Function) -> Function:
    """Add ``--dry-run`` and ``--accept-version``; the command receives ``dry_run`` and ``accept_version``."""
    return options(
        click.option("--dry-run", is_flag=True, help="Say what would be done; change nothing."),
        click.option("--accept-version", metavar="VALUE", help="Change a deployment of this unknown wire version."),
    )(function)


@contextmanager
def controlled(session: Session, queue: str, *, dry_run: bool, accept_version: str | None) -> Iterator[Queue]:
    """Yield a queue that may be changed: in use or idle, of a known wire version, not read-only."""
    refuse_read_only(session, dry_run=dry_run)
    with session.server() as server:
        target = Queue(server, queue)
        target.look(counting=True)
        if not dry_run:
            server.check_writes(accept_version)
        yield target


def report(session: Session, done: str, *, changed: bool, dry_run: bool, lane: Any, text: str) -> None:
    """Say what was done on stderr; with ``-o`` or ``-v`` also as a record."""
    result = (f"would-{done}" if dry_run else done) if changed else "skipped"
    if session.chose_output or session.is_verbose or dry_run:
        outcome = Outcome(None, result, None if changed else "already", lane=None if lane is None else str(lane))
        session.emit([outcome], Outcome, columns=COLUMNS)
    session.note(text if changed else f"{text}: it was so already")
