"""``emqctl bury``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.changing import Manner, Verb, change_jobs, manner_options
from emqctl.cli.choosing import Choice, job_choice
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.moves import How, bury
from emqctl.queues import Queue
from emqctl.selection import Source, Target, waiting, walk_all


@click.command(
    "bury",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Stop waiting or scheduled jobs without losing them.",
    examples=(
        "emqctl bury orders JOB0Nb1VTbfnu4 --reason 'crashes every worker'",
        "emqctl bury orders --grep '\"sku\":\"TEA-250\"' --reason 'recalled' --dry-run",
    ),
)
@queue_argument()
@job_choice
@click.option("--reason", required=True, metavar="TEXT", help="Becomes the job's error, after 'buried by operator: '.")
@click.option("--force", is_flag=True, help="Also jobs that a worker's lock marker still holds; these are fenced.")
@manner_options
@pass_session
def command(session: Session, /, queue: str, choice: Choice, manner: Manner, reason: str, *, force: bool) -> None:
    """Take waiting or scheduled jobs out of service without losing them: they become dead jobs.

    Nothing runs them until 'emqctl requeue' brings them back. A set is chosen among the waiting jobs,
    the lanes' included, and the scheduled ones.
    """
    how = How(force, manner.dry_run)
    verb = Verb(
        past="buried",
        jobs="job",
        make=lambda target, pages, pace: bury(target, pages, how, pace, reason=reason),
        select=lambda target: _chosen(target, choice),
        consequence=lambda _target, _found: "to become dead: nothing runs what is dead until a requeue.",
    )
    change_jobs(session, queue, choice, manner, verb)


def _chosen(queue: Queue, choice: Choice) -> Iterator[list[Target]]:
    sources, rest = waiting(queue, choice.filters)
    by_set = walk_all(queue, sources, rest, choice.limit)
    taken = 0
    for page in by_set:
        taken += len(page)
        yield page
    if not choice.limit or taken < choice.limit:
        left = choice.limit - taken if choice.limit else 0
        yield from walk_all(queue, [Source(queue.keys.schedule, by_time=True)], choice.filters, left)
