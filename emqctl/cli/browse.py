"""``emqctl browse``."""

from __future__ import annotations

from typing import Any

import click

from emqctl.branded import is_job
from emqctl.cli.options import LIMIT, Command, job_filters, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.listing import STATES, Listing, Request, browse
from emqctl.queues import Queue
from emqctl.records import BrowsedJob
from emqctl.selection import Filters

ALWAYS = ("id", "minted", "attempts", "lane", "payload_bytes")
OF_STATE = {
    "pending": (),
    "active": ("deadline", "lease_ms", "lapsed"),
    "scheduled": ("due", "overdue"),
    "dead": ("error", "error_bytes"),
}
DEAD_SHOWN = (
    "id",
    "minted",
    "attempts",
    "lane",
    "error_bytes",
    "error",
)  # errors are long: behind one nothing can be read


@click.command(
    "browse",
    cls=Command,
    record=BrowsedJob,
    always=ALWAYS,
    short_help="List the jobs of a queue, newest first.",
    examples=(
        "emqctl browse orders -n 50",
        "emqctl browse orders --state dead --since 2h -o json",
        "emqctl browse orders -n 0 -o ids",
    ),
)
@queue_argument()
@click.option("--state", type=click.Choice(STATES), default="pending", show_default=True, help="Which jobs.")
@click.option("-n", "--limit", type=LIMIT, metavar="N", default=20, show_default=True, help="At most N; 0 is all.")
@job_filters
@click.option("--reverse", is_flag=True, help="Turn the order: oldest, or last in time, first.")
@click.option("--payload", is_flag=True, help="Whole payloads in place of previews.")
@pass_session
def command(session: Session, /, queue: str, filters: Filters, **asked: Any) -> None:
    """List the jobs of a queue.

    Waiting jobs come newest first: the pending set and every known lane, merged by the time the jobs
    were made. Active ones come with the earliest lease deadline first, scheduled ones with the soonest.
    """
    request = Request(filters=filters, **asked)
    with session.server() as server:
        listing = browse(Queue(server, queue), request)
        text = "payload" if request.payload else "preview"
        columns = ("id", "minted", "attempts", "lane", *OF_STATE[request.state], "payload_bytes", text)
        shown = DEAD_SHOWN if request.state == "dead" and not request.payload else columns
        session.emit(listing, BrowsedJob, columns=columns, shown=shown, more=lambda: listing.more, clock=server.now_ms)
        _explain(session, request, listing)


def _explain(session: Session, request: Request, listing: Listing) -> None:
    if listing.more:
        known = f"of {listing.total} shown" if listing.total is not None else "shown, there are more"
        session.note(f"{listing.shown} {known}, {_next_page(request, listing)}all: -n 0")
    if listing.rowless:
        session.note(f"{listing.rowless} of these ids have no job behind them: no row, or one without payload")


def _next_page(request: Request, listing: Listing) -> str:
    by_mint = request.state in {"pending", "dead"}
    if not by_mint or listing.last is None or not is_job(listing.last):
        return ""
    return f"next: {'--after' if request.reverse else '--before'} {listing.last.decode('ascii')}, "
