"""``emqctl requeue``."""

from __future__ import annotations

from typing import Any

import click

from emqctl.changes import USUAL_BUDGET, Pace, Tally, named
from emqctl.cli.changing import (
    Choice,
    Manner,
    carry_out,
    check_permitted,
    confirm,
    given_ids,
    job_choice,
    manner_options,
    must_ask,
)
from emqctl.cli.options import Command, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.queues import Queue
from emqctl.requeue import Options, requeue
from emqctl.selection import Survey, survey, walk


@click.command(
    "requeue",
    cls=Command,
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
    go first. Attempts are kept, so a worker that allows no more buries a job at its next failure.
    Running the same command again is always safe.
    """
    check_permitted(session, choice, manner)
    options = Options(dry_run=manner.dry_run, **flags)
    with session.server() as server:
        target = Queue(server, queue)
        target.look(counting=True)
        if not manner.dry_run:
            server.check_writes(manner.accept_version)
        if must_ask(choice, manner):
            found = _survey(session, target, choice)
            if not found.count:
                session.note(f"no dead job of {queue} is chosen")
                return
            confirm(session, _question(target, found, options))
        pace = Pace(choice.is_set, manner.batch, session.shield.begin)
        pages = (
            walk(target, target.keys.dead, choice.filters, choice.limit)
            if choice.is_set
            else named(given_ids(session, choice.ids))
        )
        carry_out(
            session,
            requeue(target, pages, options, pace),
            manner,
            lambda tally: _summary(tally, target, options),
        )


def _survey(session: Session, queue: Queue, choice: Choice) -> Survey:
    found = Survey(0, [], 0)
    for found in survey(queue, queue.keys.dead, choice.filters, choice.limit, USUAL_BUDGET):
        session.progress.show(f"{found.count:,} counted")
    return found


def _question(queue: Queue, found: Survey, options: Options) -> str:
    waiting = queue.depth().waiting
    ahead = f"ahead of {waiting:,} waiting" if isinstance(waiting, int) else "ahead of those that wait"
    more = ", …" if found.count > len(found.first) else ""
    return (
        f"{queue.server.shown}, queue {queue.name}: {', '.join(found.first)}{more}\n"
        f"{_jobs(found.count)} go to the FRONT of {queue.name}, {ahead}; " + _warning(found.spent, options)
    )


def _warning(worn: int, options: Options) -> str:
    if options.reset_attempts:
        return "all get their whole budget back, and a worker that still runs one of them may be taken for a new one."
    budget = USUAL_BUDGET
    return f"{worn:,} have {budget} or more attempts and die at their next failure where workers allow {budget}."


def _summary(tally: Tally, queue: Queue, options: Options) -> str:
    done = f"{'would requeue' if options.dry_run else 'requeued'} {_jobs(tally.done)} of {queue.name}"
    undone = ", ".join(f"{count:,} {reason}" for reason, count in sorted(tally.undone.items()))
    parts = [done]
    if undone:
        parts.append(f"not: {undone}")
    if tally.left:
        parts.append(f"{tally.left:,} had left the dead set meanwhile")
    parts += [f"{count:,} {note}" for note, count in sorted(tally.notes.items())]
    if tally.worn and not options.reset_attempts:
        parts.append(
            f"{tally.worn:,} have spent {USUAL_BUDGET} or more attempts (up to {tally.attempts:,}): "
            "a worker that allows no more buries them at their first failure"
        )
    return "; ".join(parts)


def _jobs(count: int) -> str:
    return f"{count:,} dead job{'' if count == 1 else 's'}"
