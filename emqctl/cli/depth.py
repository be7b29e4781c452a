"""``emqctl depth``."""

from __future__ import annotations

import click

from emqctl.cli import exit_codes
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.errors import BadUsage
from emqctl.queues import open_queues
from emqctl.records import QueueDepth, unreadable


@click.command(
    "depth",
    cls=Command,
    short_help="Count the waiting jobs of queues.",
    examples=("emqctl depth orders", "emqctl depth orders emails --states", "emqctl depth -o json"),
)
@queue_argument("queues", nargs=-1)
@click.option("--flat", is_flag=True, help="The pending set alone, without the lanes.")
@click.option("--states", is_flag=True, help="Every count: pending, lanes, active, scheduled, dead, …")
@pass_session
def command(session: Session, /, queues: tuple[str, ...], *, flat: bool, states: bool) -> None:
    """Count the waiting jobs of queues: the pending set and every known lane.

    One queue named: the bare number. Several, or none for all there are: one row a queue.
    """
    if flat and states:
        raise BadUsage("--flat and --states exclude each other")
    alone = len(queues) == 1
    with session.server() as server:
        rows = []
        for queue in open_queues(server, queues):
            rows.append(queue.depths() if states else queue.depth(flat=flat))
            reason = unreadable(rows[-1])
            if alone and reason:
                raise reason
            if reason:
                session.exit_code = exit_codes.PARTLY
        columns = None if states else ("queue", "waiting")
        session.emit(rows, QueueDepth, columns=columns, bare="waiting" if alone and not states else None)
