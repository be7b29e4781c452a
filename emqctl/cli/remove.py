"""``emqctl remove``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emqctl import keyspace
from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.changing import Manner, Verb, change_jobs, manner_options
from emqctl.cli.choosing import Choice, job_choice
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.errors import BadUsage
from emqctl.moves import REMOVABLE, How, remove
from emqctl.queues import Queue
from emqctl.selection import Source, Target, waiting, walk_all


@click.command(
    "remove",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Delete jobs for good.",
    examples=(
        "emqctl remove orders JOB0Nb1VTbfnu4",
        "emqctl remove orders --state dead --until 30d --dry-run",
        "emqctl remove orders --state pending --flat --all",
    ),
)
@queue_argument()
@job_choice
@click.option(
    "--state", type=click.Choice(list(REMOVABLE)), help="For a set: only from there; pending is every waiting job."
)
@click.option("--dedup", metavar="DID", help="Also release this dedup id, if it belongs to a removed job.")
@click.option("--force", is_flag=True, help="Also jobs in flight, locked ones, and rows that stand nowhere.")
@manner_options
@pass_session
def command(
    session: Session,
    /,
    queue: str,
    choice: Choice,
    manner: Manner,
    *,
    state: str | None,
    dedup: str | None,
    force: bool,
) -> None:
    """Delete jobs for good: place, row, logs, lock, slot. There is no way back.

    Ids are removed from wherever each is; a set only from --state, up to the newest job there is at the
    start. Members of flows are left alone: their parents would wait for ever.
    """
    if choice.is_set and state is None:
        raise BadUsage("a set is removed from one state", hint=f"give --state {'|'.join(REMOVABLE)}")
    how = How(force, manner.dry_run)
    did = None if dedup is None else keyspace.encode(dedup)
    verb = Verb(
        past="removed",
        jobs=f"{state} job" if state else "job",
        make=lambda target, pages, pace: remove(target, pages, how, pace, state=state, dedup=did),
        select=lambda target: _chosen(target, choice, str(state)),
        consequence=lambda _target, _found: "to be deleted for good, payload and logs included.",
        is_final=True,
    )
    change_jobs(session, queue, choice, manner, verb)


def _chosen(queue: Queue, choice: Choice, state: str) -> Iterator[list[Target]]:
    if state == "pending":
        sources, rest = waiting(queue, choice.filters)
        return walk_all(queue, sources, rest, choice.limit)
    source = Source(queue.keys.dead) if state == "dead" else Source(queue.keys.schedule, by_time=True)
    return walk_all(queue, [source], choice.filters, choice.limit)
