"""``emqctl depth``."""

from __future__ import annotations

import click

from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.cli.several import settle
from emqctl.errors import BadUsage
from emqctl.queues import Queue, every_depth
from emqctl.records import QueueState

STATES = (
    *("queue", "pending", "lanes", "waiting", "active", "lapsed"),
    *("scheduled", "overdue", "dead", "completed", "failed"),
)


@click.command(
    "depth",
    cls=Command,
    record=QueueState,
    columns=STATES,
    always=("queue", "waiting"),
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
        named = (Queue(server, name) for name in queues)
        counted = (queue.depths() if states else queue.depth(flat=flat) for queue in named)
        every = None if queues else every_depth(server, flat=flat, states=states)
        rows = settle(session, every or counted, alone=alone)
        columns = STATES if states else ("queue", "waiting")
        session.emit(rows, QueueState, columns=columns, bare="waiting" if alone and not states else None)
