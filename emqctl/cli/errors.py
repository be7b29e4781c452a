"""``emqctl errors``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emqctl.cli import exit_codes
from emqctl.cli.options import Command, mint_bounds, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.errors import EmqError, Interrupted
from emqctl.failures import GROUPS, Failures
from emqctl.queues import open_queues
from emqctl.records import ErrorGroup, columns_of
from emqctl.window import MintBounds

COLUMNS = columns_of(ErrorGroup)


@click.command(
    "errors",
    cls=Command,
    short_help="Group dead jobs by what they died of.",
    examples=(
        "emqctl errors orders",
        "emqctl errors orders emails --since 52w -o json",
        "emqctl errors orders --columns count,group,error",
    ),
    record=ErrorGroup,
    columns=COLUMNS,
    always=COLUMNS[1:],
)
@queue_argument("queues", nargs=-1)
@mint_bounds
@pass_session
def command(session: Session, /, queues: tuple[str, ...], bounds: MintBounds) -> None:
    """Group the dead jobs of queues, of all when none is named, by what they died of, the most frequent first.

    Errors that differ only in an id, a number, an address, a path or a quoted text are one group. Its name is
    what --error-group of browse and requeue takes. SAMPLE is the newest job of a group. Jobs without an
    error text have no group; what is known of them stands in parentheses.
    """
    alone = len(queues) == 1
    with session.server() as server:
        opened = open_queues(server, queues)
        for queue in opened if queues else ():
            queue.look(counting=False)
        failures = Failures(server, [queue.keys for queue in opened], bounds, alone=alone)
        columns = COLUMNS[1:] if alone else COLUMNS
        session.emit(_found(session, failures), ErrorGroup, columns=columns, clock=server.now_ms)
        _explain(session, failures)


def _found(session: Session, failures: Failures) -> Iterator[ErrorGroup]:
    """Yield the groups of all dead jobs; of those that were looked at when the run is ended, then what ended it."""
    ended: EmqError | Interrupted | None = None
    try:
        for page in failures.pages():
            session.shield.begin()
            failures.add(page)
            session.shield.end()
            session.progress.show(f"{failures.looked_at:,} of {failures.total:,} dead jobs looked at")
    except (EmqError, Interrupted) as error:
        ended = error
    yield from failures.groups()
    if ended:
        if failures.looked_at:
            session.note(f"ended early: {failures.looked_at:,} of {failures.total:,} dead jobs were looked at")
        raise ended


def _explain(session: Session, failures: Failures) -> None:
    if failures.unreadable:
        session.exit_code = exit_codes.PARTLY
    if failures.further:
        session.note(f"{GROUPS:,} groups are kept apart; {failures.further:,} dead jobs of further errors are not")
    if failures.untold:
        session.note(f"{failures.untold:,} errors are too long to be kept: emqctl inspect shows them by their sample")
