"""``emqctl promote``."""

from __future__ import annotations

from collections.abc import Iterator

import click

from emqctl.changes import COLUMNS, Outcome
from emqctl.cli.changing import Manner, Verb, change_jobs, manner_options
from emqctl.cli.choosing import Choice, named_jobs
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.requeue import ahead_of
from emqctl.cli.session import Session
from emqctl.errors import BadUsage
from emqctl.moves import How, promote
from emqctl.queues import Queue
from emqctl.selection import Filters, Source, Survey, Target, walk_all


@click.command(
    "promote",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Let scheduled jobs wait now.",
    examples=("emqctl promote orders --due", "emqctl promote orders JOB0Nb1VTbfnu4", "emqctl promote orders --all"),
)
@queue_argument()
@named_jobs(required=False)
@click.option("--due", is_flag=True, help="All whose time has come.")
@click.option("--all", "everything", is_flag=True, help="All, due or not.")
@click.option("--force", is_flag=True, help="Also jobs that a worker's lock marker still holds; these are fenced.")
@manner_options
@pass_session
def command(
    session: Session, /, queue: str, ids: tuple[str, ...], manner: Manner, *, due: bool, everything: bool, force: bool
) -> None:
    """Let scheduled jobs wait now: in their own lane, or in the pending set. A job named goes, due or not."""
    if sum((bool(ids), due, everything)) != 1:
        raise BadUsage("name ids, or choose --due or --all")
    how = How(force, manner.dry_run)
    verb = Verb(
        past="promoted",
        jobs="scheduled job",
        make=lambda target, pages, pace: promote(target, pages, how, pace, due=due),
        select=lambda target: _scheduled(target, due=due),
        consequence=_consequence if everything else None,
    )
    change_jobs(session, queue, Choice(ids), manner, verb)


def _scheduled(queue: Queue, *, due: bool) -> Iterator[list[Target]]:
    until_ms = queue.server.now_ms() if due else None
    return walk_all(queue, [Source(queue.keys.schedule, by_time=True, until_ms=until_ms)], Filters())


def _consequence(queue: Queue, _found: Survey) -> str:
    return f"to start before the time given, by mint order, {ahead_of(queue)}; retries lose their delay."
