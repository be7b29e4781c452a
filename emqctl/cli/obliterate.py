"""``emqctl obliterate``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import click

from emqctl import keyspace
from emqctl.changes import COLUMNS, Outcome, Tally
from emqctl.cli import exit_codes
from emqctl.cli.changing import refuse_read_only
from emqctl.cli.controlling import ControlManner, control_options, controlled
from emqctl.cli.options import Command, Parsed, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.errors import Refused
from emqctl.obliteration import ROUNDS, obliterate, preview
from emqctl.queues import Queue
from emqctl.stock import FIRST, Stock, take_stock

OPEN_AGAIN = "the queue is open again: workers, or a pump that was firing a repeat just now, may refill it"
#: Reason -> what keeps a queue from being deleted to the end.
KEPT_BY = {
    "active": "jobs are in flight: let them finish, or take them from their workers with --force",
    "written-meanwhile": f"keys kept coming for {ROUNDS} rounds: stop what writes them",
}


@click.command(
    "obliterate",
    cls=Command,
    record=Outcome,
    columns=COLUMNS,
    short_help="Delete a queue and everything in it.",
    examples=(
        "emqctl obliterate orders --dry-run",
        "emqctl obliterate orders",
        "emqctl obliterate orders --confirm orders --force",
    ),
)
@queue_argument()
@click.option(
    "--confirm",
    type=Parsed("queue", keyspace.check_queue),
    metavar="NAME",
    help="The queue's name once more; else it is to be typed.",
)
@click.option("--force", is_flag=True, help="Also with jobs in flight, or flows of other queues that depend on it.")
@control_options
@pass_session
def command(session: Session, /, queue: str, confirm: str | None, manner: ControlManner, *, force: bool) -> None:
    """Delete a queue: its jobs, wherever they stand, and every other key of it. There is no way back.

    The queue is paused first, and stays so until nothing is left of it. Ended half-way it is paused and
    sound; the same command, run again, goes on. In the end it is open again: whoever writes to it refills it.
    """
    refuse_read_only(session, dry_run=manner.dry_run)
    if not manner.dry_run:
        _check_named(session, queue, confirm)
    with controlled(session, queue, manner) as target:
        stock = _stock_of(session, target)
        if not stock.keys:
            session.note(f"there is no key of {queue}: nothing was deleted")
            return
        if manner.dry_run:
            session.note(f"{queue} holds {_contents(stock)}")
        _check_free(session, queue, stock, force=force)
        if manner.dry_run:
            session.emit(chain.from_iterable(preview(target)), Outcome, columns=COLUMNS, empty=None)
            return
        if confirm is None:
            _ask_name(session, target, stock)
        _carry_out(session, target, stock, manner, force=force)


def _check_named(session: Session, queue: str, confirm: str | None) -> None:
    """Refuse another name than the queue's, or to ask for it where nobody can answer."""
    stdin = session.environment.stdin
    if confirm is None and (stdin is None or not stdin.isatty()):
        what = "obliterate asks for the queue's name, and stdin is no terminal to type it at"
        raise Refused(what, hint=f"pass --confirm {queue}")
    if confirm not in {None, queue}:
        raise Refused(f"not confirmed: --confirm names {confirm!r}, not {queue!r}")


def _stock_of(session: Session, queue: Queue) -> Stock:
    stock = Stock()
    for stock in take_stock(queue):
        session.progress.show(f"{stock.keys:,} keys counted")
    return stock


def _check_free(session: Session, queue: str, stock: Stock, *, force: bool) -> None:
    """Refuse a queue that other queues' flows depend on, each named, or with jobs in flight, unless forced to."""
    if stock.ties:
        depend = f"flows of other queues depend on {queue}: {_some_ties(stock)}"
        if force:
            session.note(depend)
        else:
            tied = (Outcome(tie.id, "skipped", "cross-queue", notes=(tie.how,)) for tie in stock.ties)
            session.emit(tied, Outcome, columns=COLUMNS, empty=None)
            hint = "with --force those parents wait for ever, and what comes back from children leaves ghosts here"
            raise Refused(f"cross-queue: {depend}", hint=hint)
    if stock.active and not force:
        hint = "'pause' lets them finish, 'depth --states' counts them; --force takes them from their workers"
        raise Refused(f"active: {_jobs(stock.active)} of {queue} in flight; nothing was deleted", hint=hint)


def _ask_name(session: Session, queue: Queue, stock: Stock) -> None:
    """Ask for the name of the queue, and raise Refused unless it is typed."""
    session.progress.clear()
    more = ", …" if stock.jobs > len(stock.first) else ""
    where = f"{queue.server.shown}, queue {queue.name}: {', '.join(stock.first)}{more}"
    question = f"{where}\n{_contents(stock)} are deleted for good.\nType the name of the queue to go on: "
    if keyspace.encode(session.ask(question)) != keyspace.encode(queue.name):
        raise Refused("not confirmed: nothing was changed")


def _carry_out(session: Session, queue: Queue, stock: Stock, manner: ControlManner, *, force: bool) -> None:
    """Delete step by step, written down in the journal; print the records as every change does, the account last."""
    pen = session.open_journal(queue.name, note=manner.note)
    ids_only, everything = session.output_format == "ids", session.chose_output or session.is_verbose
    tally, is_paused, is_gone = Tally(), False, False

    def begin(ids: Sequence[bytes]) -> None:
        pen.begin(ids)
        session.shield.begin()

    def shown() -> Iterator[Outcome]:
        nonlocal is_paused, is_gone
        for outcomes in obliterate(queue, begin, force=force):
            is_paused = True
            for outcome in outcomes:
                tally.add(outcome)
            pen.end(outcomes)
            session.shield.end()
            session.progress.show(f"{tally.done:,} of {stock.jobs:,} jobs deleted")
            yield from (each for each in outcomes if (each.is_done if ids_only else everything or not each.is_done))
        is_gone = not tally.undone

    try:
        session.emit(shown(), Outcome, columns=COLUMNS, empty=None)
    finally:
        done = f"deleted {_jobs(tally.done)} of {queue.name}"
        if is_gone:
            session.note(f"{done} and every key of it; {OPEN_AGAIN}")
        elif is_paused:
            kept_by = [KEPT_BY[reason] for reason in tally.undone]
            session.note("; ".join([done, "it stays paused", *kept_by, "the same command, run again, goes on"]))
    session.exit_code = exit_codes.VERDICTS[tally.verdict]


def _contents(stock: Stock) -> str:
    flying = f", {stock.active:,} of them in flight," if stock.active else ""
    return f"{_jobs(stock.jobs)}{flying} in {stock.keys:,} key{'' if stock.keys == 1 else 's'}"


def _jobs(number: int) -> str:
    return f"{number:,} job{'' if number == 1 else 's'}"


def _some_ties(stock: Stock) -> str:
    first = ", ".join(f"{keyspace.decode(tie.id)} ({tie.how})" for tie in stock.ties[:FIRST])
    return f"{_jobs(len(stock.ties))}: {first}{', …' if len(stock.ties) > FIRST else ''}"
