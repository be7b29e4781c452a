"""``emqctl lanes``."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import click

from emqctl.cli import exit_codes
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.lane_listing import LaneListing
from emqctl.queues import Queue
from emqctl.records import Lane, unreadable


@click.command(
    "lanes",
    cls=Command,
    record=Lane,
    short_help="List the lanes of a queue, and why one is not served.",
    examples=("emqctl lanes emails", "emqctl lanes emails --columns lane,depth,why", "emqctl lanes emails -o json"),
)
@queue_argument()
@pass_session
def command(session: Session, /, queue: str) -> None:
    """List the lanes of a queue: what waits and runs in each, its limit and weight, and why it is not served.

    Every lane is listed, also one that only a job or a scan of the keys tells of. `active` is the counter
    workers go by; `active_true`, in a table shown where it differs, counts the jobs.
    """
    with session.server() as server:
        listing = LaneListing(Queue(server, queue))
        if listing.is_paused:
            session.note(f"{queue} is paused: no lane of it is served")
        for known in listing.find():
            session.progress.show(f"{known:,} lanes found")
        session.emit(_shown(session, listing), Lane, clock=server.now_ms)


def _shown(session: Session, lanes: Iterable[Lane]) -> Iterator[Lane]:
    differing_only = session.output_format == "table"
    for lane in lanes:
        if unreadable(lane):
            session.exit_code = exit_codes.PARTLY
        yield replace(lane, active_true=None) if differing_only and lane.active_true == lane.active else lane
