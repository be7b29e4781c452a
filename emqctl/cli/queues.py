"""``emqctl queues``."""

from __future__ import annotations

import click

from emqctl.cli.options import Command, pass_session
from emqctl.cli.session import Session
from emqctl.cli.several import settle
from emqctl.counting import EVERYTHING, overview
from emqctl.keyspace import decode
from emqctl.presence import Census, census
from emqctl.records import QueueState

SHOWN = ("queue", "waiting", "active", "lapsed", "dead", "oldest", "paused")
COLUMNS = (*SHOWN, "pending", "lanes", "scheduled", "overdue", "completed", "failed")


@click.command(
    "queues",
    cls=Command,
    short_help="List every queue and what it holds.",
    examples=("emqctl queues", "emqctl queues --columns all", "emqctl queues -o json"),
    record=QueueState,
    columns=COLUMNS,
)
@pass_session
def command(session: Session, /) -> None:
    """List every queue: what waits, runs, has lapsed or died, when the oldest waiting job was made, if it is paused.

    EchoMQ keeps no register of queues: all keys of the database are scanned, without stopping the server.
    Lanes that no key of the queue names are found and counted too.
    """
    with session.server() as server:
        met = Census()
        for met in census(server):
            session.progress.show(f"{met.looked_at:,} keys looked at, {len(met.queues):,} queues")
        counted = overview(server, sorted(met.queues), EVERYTHING, met.lanes)
        rows = settle(session, counted, alone=False)
        session.emit(rows, QueueState, columns=COLUMNS, shown=SHOWN, clock=server.now_ms)
        _explain(session, met)


def _explain(session: Session, met: Census) -> None:
    if met.strangers:
        names = ", ".join(map(decode, met.strange)) + (", …" if met.strangers > len(met.strange) else "")
        one = met.strangers == 1
        keys = "1 key begins" if one else f"{met.strangers:,} keys begin"
        session.note(f"{keys} like those of a queue and belong{'s' if one else ''} to none: {names}")
    if met.lanes_beyond:
        session.note(
            f"{met.lanes_beyond:,} lanes too many to remember: of these, only those that a key names are counted"
        )
