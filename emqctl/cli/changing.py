"""What every change has in common: which jobs, the question, the records, the account, the exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

import click

from emqctl.changes import BATCH, COLUMNS, Outcome, Tally
from emqctl.cli import exit_codes
from emqctl.cli.options import Function, Parsed, job_filters, options
from emqctl.cli.session import Session
from emqctl.errors import BadUsage, Refused
from emqctl.selection import Filters
from emqctl.times import parse_rate

VERDICTS = {
    "done": exit_codes.DONE,
    "partly": exit_codes.PARTLY,
    "missing": exit_codes.MISSING,
    "refused": exit_codes.REFUSED,
}


@dataclass(frozen=True)
class Choice:
    """Which jobs a change is for: ids named one by one, or a set."""

    ids: tuple[str, ...]
    everything: bool
    filters: Filters
    limit: int

    @property
    def is_set(self) -> bool:
        """Whether the jobs are chosen by what they are, and not by name."""
        return not self.ids

    def check(self) -> None:
        """Raise BadUsage unless exactly one way of choosing was used."""
        narrowed = self.filters != Filters() or bool(self.limit)
        if self.ids and (self.everything or narrowed):
            raise BadUsage("ids and filters do not go together", hint="name ids, or choose a set by --all or filters")
        if not self.ids and not (self.everything or narrowed):
            raise BadUsage("no job is chosen", hint="name ids, - for ids on stdin, or choose a set by --all or filters")


@dataclass(frozen=True)
class Manner:
    """How a change is carried out; ``rate`` is jobs a second, None as fast as it goes."""

    dry_run: bool
    yes: bool
    accept_version: str | None
    rate: float | None

    @property
    def batch(self) -> int:
        """How many jobs one program call handles."""
        return BATCH if self.rate is None else max(1, min(BATCH, int(self.rate)))


def job_choice(function: Function) -> Function:
    """Add the ways to choose jobs; the command receives them, checked, as ``choice``."""

    @wraps(function)
    def gathered(*arguments: Any, **given: Any) -> Any:
        words = (given.pop(name) for name in ("ids", "everything", "filters", "limit"))
        choice = Choice(*words)
        choice.check()
        return function(*arguments, choice=choice, **given)

    ways = options(
        click.argument("ids", nargs=-1, metavar="[ID]...|-"),
        click.option("--all", "everything", is_flag=True, help="Every job of the state."),
        job_filters,
        click.option("-n", "--limit", type=click.IntRange(min=0), default=0, help="At most N, the oldest; 0 is all."),
    )
    return ways(cast("Function", gathered))


def manner_options(function: Function) -> Function:
    """Add how a change is carried out; the command receives it as ``manner``."""

    @wraps(function)
    def gathered(*arguments: Any, **given: Any) -> Any:
        manner = Manner(*(given.pop(name) for name in ("dry_run", "yes", "accept_version", "rate")))
        return function(*arguments, manner=manner, **given)

    manners = options(
        click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--rate", type=Parsed("rate", parse_rate), metavar="N/s", help="At most so many: 50/s, 100/m."),
        click.option("--accept-version", metavar="VALUE", help="Change a deployment of this unknown wire version."),
    )
    return manners(cast("Function", gathered))


def given_ids(session: Session, words: Sequence[str]) -> Iterator[bytes]:
    """Yield ids named on the command line, or, for ``-``, from the lines of stdin.

    Of a line the text before the first tab, comma or blank is the id; blank lines and a first line
    ``id`` are passed over.
    """
    if tuple(words) != ("-",):
        yield from (word.encode("utf-8", "surrogateescape") for word in words)
        return
    stdin = session.environment.stdin
    for number, line in enumerate(stdin.buffer if stdin else ()):
        word = line.replace(b",", b" ").split(None, 1)[:1]
        if word and not (number == 0 and word == [b"id"]):
            yield word[0]


def check_permitted(session: Session, choice: Choice, manner: Manner) -> None:
    """Refuse, before anything is sent, what this run may not do, or would have to ask and cannot."""
    if session.settings.read_only and not manner.dry_run:
        hint = "leave out --read-only, or look first with --dry-run"
        raise Refused(f"this run is read-only, and {session.command} writes", hint=hint)
    stdin = session.environment.stdin
    if must_ask(choice, manner) and (stdin is None or not stdin.isatty()):
        raise Refused(f"{session.command} of a set of jobs asks, and stdin is no terminal", hint="pass --yes")


def must_ask(choice: Choice, manner: Manner) -> bool:
    """Tell whether a change has to be confirmed: names are their own confirmation, a set is not."""
    return choice.is_set and not manner.yes and not manner.dry_run


def confirm(session: Session, question: str) -> None:
    """Ask, and raise Refused unless the answer is ``yes``."""
    session.progress.clear()
    if session.ask(f"{question}\nType yes to go on: ") != "yes":
        raise Refused("not confirmed: nothing was changed")


def carry_out(
    session: Session, batches: Iterable[Sequence[Outcome]], manner: Manner, summary: Callable[[Tally], str]
) -> None:
    """Run a change to its end: print its records, then the account on stderr, and set the exit code.

    Printed are the jobs that were not changed; all of them with -o or -v and in a dry run; the ids of
    those that were with ``-o ids``.
    """
    tally = Tally()
    try:
        session.emit(_shown(session, batches, manner, tally), Outcome, columns=COLUMNS)
    finally:
        session.note(summary(tally))
    session.exit_code = exit_codes.VERDICTS[tally.verdict]


def _shown(session: Session, batches: Iterable[Sequence[Outcome]], manner: Manner, tally: Tally) -> Iterator[Outcome]:
    ids_only = session.output_format == "ids"
    everything = manner.dry_run or session.chose_output or session.is_verbose
    began, handled = time.monotonic(), 0
    for outcomes in batches:
        for outcome in outcomes:
            tally.add(outcome)
        session.shield.end()
        handled += len(outcomes)
        session.progress.show(f"{tally.done:,} done, {handled - tally.done:,} not")
        yield from (each for each in outcomes if (each.is_done if ids_only else everything or not each.is_done))
        if manner.rate is not None and outcomes:
            time.sleep(max(0.0, began + handled / manner.rate - time.monotonic()))
