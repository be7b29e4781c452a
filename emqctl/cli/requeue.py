"""``emqctl requeue``."""

from __future__ import annotations

from typing import Any

import click

from emqctl.changes import COLUMNS, USUAL_BUDGET, Outcome
from emqctl.cli.changing import Manner, Verb, change_jobs, manner_options
from emqctl.cli.choosing import Choice, job_choice
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.queues import Queue
from emqctl.requeue import Options, requeue
from emqctl.selection import Survey, walk


@click.command(
    "requeue",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Bring dead jobs back to where they wait.",
    examples=(
        "emqctl requeue orders JOB0Nb1VTbfnu4",
        "emqctl requeue orders --all --dry-run",
        "emqctl requeue orders --error 'connection refused' --since 2h --rate 50/s",
    ),
)
@queue_argument()
@job_choice
@click.option("--force", is_flag=True, help="Also jobs that a worker's lock marker still holds; these are fenced.")
@click.option(
    "--reset-attempts", is_flag=True, help="Give the whole budget back; an old worker may be taken for a new."
)
@manner_options
@pass_session
def command(session: Session, /, queue: str, choice: Choice, manner: Manner, **flags: Any) -> None:
    """Bring dead jobs back: to their own lane, or to the pending set, at the place of their mint time.

    Named ids are their own confirmation; a set, chosen by --all or filters, is asked for. The oldest
    go first, and --after ID goes on behind those that cannot be moved. Attempts are kept, so a worker
    that allows no more buries a job at its next failure. Running the same command again is always safe.
    """
    options = Options(dry_run=manner.dry_run, **flags)
    verb = Verb(
        past="requeued",
        jobs="dead job",
        make=lambda target, pages, pace: requeue(target, pages, options, pace),
        select=lambda target: walk(target, target.keys.dead, choice.filters, choice.limit),
        consequence=lambda target, found: (
            f"go{'es' if found.count == 1 else ''} to the FRONT of {queue}, {ahead_of(target)}; "
            + _warning(found, options)
        ),
        comes_back=not options.reset_attempts,
    )
    change_jobs(session, queue, choice, manner, verb)


def _warning(found: Survey, options: Options) -> str:
    if options.reset_attempts:
        return "all get their whole budget back, and a worker that still runs one of them may be taken for a new one."
    they = "1 has" if found.spent == 1 else f"{found.spent:,} have"
    die = "dies at its" if found.spent == 1 else "die at their"
    budget = USUAL_BUDGET
    return f"{they} {budget} or more attempts and {die} next failure where workers allow {budget}."


def ahead_of(queue: Queue) -> str:
    """Say how many wait already."""
    waiting = queue.depth().waiting
    return f"ahead of {waiting:,} waiting" if isinstance(waiting, int) else "ahead of those that wait"
