"""``emqctl reap``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.changing import Manner, Verb, change_jobs, manner_options
from emqctl.cli.choosing import Choice, named_jobs
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.moves import How, reap
from emqctl.queues import Queue
from emqctl.selection import Filters, Source, Target, walk_all


@click.command(
    "reap",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Take jobs whose lease has lapsed back to where they wait.",
    examples=("emqctl reap orders", "emqctl reap orders --dry-run", "emqctl reap orders JOB0Nb1VTbfnu4"),
)
@queue_argument()
@named_jobs(required=False)
@click.option("--force", is_flag=True, help="Also jobs that a worker's lock marker still holds; these are fenced.")
@manner_options
@pass_session
def command(session: Session, /, queue: str, ids: tuple[str, ...], manner: Manner, *, force: bool) -> None:
    """Take jobs whose lease has lapsed from their workers: back to their own lane, or to the pending set.

    Without ids: all that have lapsed. A live lease is left alone: a worker holds it. A worker that was
    only slow may still finish such a job before it is claimed again; then it does not run again.
    """
    how = How(force, manner.dry_run)
    verb = Verb(
        past="reaped",
        jobs="lapsed job",
        make=lambda target, pages, pace: reap(target, pages, how, pace),
        select=_lapsed,
    )
    change_jobs(session, queue, Choice(ids), manner, verb)


def _lapsed(queue: Queue) -> Iterator[list[Target]]:
    source = Source(queue.keys.active, by_time=True, until_ms=queue.server.now_ms())
    return walk_all(queue, [source], Filters())
