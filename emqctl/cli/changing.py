"""What every change of jobs has in common: the question, the records, the account, the exit code."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import wraps
from typing import Any, cast

import click

from emqctl.changes import BATCH, COLUMNS, USUAL_BUDGET, Outcome, Pace, Tally, named
from emqctl.cli import exit_codes
from emqctl.cli.choosing import Choice, given_ids
from emqctl.cli.options import Function, Parsed, options
from emqctl.cli.pen import Pen
from emqctl.cli.session import Session
from emqctl.errors import Refused
from emqctl.keyspace import encode
from emqctl.queues import Queue
from emqctl.selection import Survey, Target, survey
from emqctl.times import parse_rate

NOTE = click.option("--note", metavar="TEXT", help="Goes into the journal with the change.")
ACCEPT_VERSION = click.option(
    "--accept-version", metavar="VALUE", help="Change a deployment of this unknown wire version."
)

Pages = Iterable[Sequence[Target | Outcome]]


@dataclass(frozen=True)
class Manner:
    """How a change is carried out; ``rate`` is jobs a second, None as fast as it goes."""

    dry_run: bool
    yes: bool
    accept_version: str | None
    rate: float | None
    note: str | None = None

    @property
    def batch(self) -> int:
        """How many jobs one program call handles."""
        return BATCH if self.rate is None else max(1, min(BATCH, int(self.rate)))


@dataclass(frozen=True)
class Verb:
    """One change as the command line knows it.

    ``past`` and ``jobs`` are its words ("requeued", "dead job"). ``make`` carries it out on pages of
    jobs; ``select`` walks the set that was chosen. ``consequence`` says what will happen to so many
    jobs, for the question; without it nothing is asked. ``is_final`` changes ask for named ids too;
    ``comes_back`` ones let jobs run again, and tell how many attempts those have spent.
    """

    past: str
    jobs: str
    make: Callable[[Queue, Pages, Pace], Iterable[Sequence[Outcome]]]
    select: Callable[[Queue], Iterator[list[Target]]]
    consequence: Callable[[Queue, Survey], str] | None = None
    is_final: bool = False
    comes_back: bool = False

    def count(self, number: int) -> str:
        """Return ``3 dead jobs``."""
        return f"{number:,} {self.jobs}{'' if number == 1 else 's'}"


def manner_options(function: Function) -> Function:
    """Add how a change is carried out; the command receives it as ``manner``."""

    @wraps(function)
    def gathered(*arguments: Any, **given: Any) -> Any:
        manner = Manner(*(given.pop(name) for name in ("dry_run", "yes", "accept_version", "rate", "note")))
        return function(*arguments, manner=manner, **given)

    manners = options(
        click.option("--dry-run", is_flag=True, help="Print what would be done; change nothing."),
        click.option("--yes", is_flag=True, help="Do not ask."),
        click.option("--rate", type=Parsed("rate", parse_rate), metavar="N/s", help="At most so many: 50/s, 100/m."),
        NOTE,
        ACCEPT_VERSION,
    )
    return manners(cast("Function", gathered))


def change_jobs(session: Session, queue: str, choice: Choice, manner: Manner, verb: Verb) -> None:
    """Carry out a change of jobs: refuse, ask, change batch by batch, print, and give the account."""
    asks = verb.consequence is not None and (choice.is_set or verb.is_final) and not (manner.yes or manner.dry_run)
    _check_permitted(session, manner, asks=asks, reads_stdin=choice.ids == ("-",))
    with session.server() as server:
        target = Queue(server, queue)
        target.look(counting=True)
        if not manner.dry_run:
            server.check_writes(manner.accept_version)
        if asks and not _confirm(session, target, choice, verb):
            session.emit([], Outcome, columns=COLUMNS, empty=None)
            return
        pen = None if manner.dry_run else session.open_journal(queue, note=manner.note)
        began, begun = time.monotonic(), 0

        def begin(ids: Sequence[bytes]) -> None:
            nonlocal begun
            if manner.rate is not None:
                time.sleep(max(0.0, began + begun / manner.rate - time.monotonic()))
            begun += len(ids)
            session.shield.begin()
            if pen and ids:
                pen.begin(ids)

        pace = Pace(choice.is_set, manner.batch, begin)
        pages = verb.select(target) if choice.is_set else named(given_ids(session, choice.ids))
        batches = _written_down(verb.make(target, pages, pace), pen)
        _carry_out(session, batches, target, manner, verb)


def _written_down(batches: Iterable[Sequence[Outcome]], pen: Pen | None) -> Iterator[Sequence[Outcome]]:
    for outcomes in batches:
        answers = [each for each in outcomes if each.reason not in {"malformed", "duplicate"}]
        if pen and answers:
            pen.end(answers)
        yield outcomes


def _check_permitted(session: Session, manner: Manner, *, asks: bool, reads_stdin: bool) -> None:
    """Refuse, before anything is sent, what this run may not do, or would have to ask and cannot."""
    refuse_read_only(session, dry_run=manner.dry_run)
    stdin = session.environment.stdin
    if asks and (reads_stdin or stdin is None or not stdin.isatty()):
        raise Refused(f"{session.command} asks first, and stdin is no terminal to answer at", hint="pass --yes")


def refuse_read_only(session: Session, *, dry_run: bool = False) -> None:
    """Raise Refused where this run may not write; a dry run may always."""
    if session.settings.read_only and not dry_run:
        hint = "leave out --read-only, or look first with --dry-run"
        raise Refused(f"this run is read-only, and {session.command} writes", hint=hint)


def _confirm(session: Session, queue: Queue, choice: Choice, verb: Verb) -> bool:
    """Ask, and tell whether there is anything to do. Raises Refused unless the answer is ``yes``."""
    pages = verb.select(queue) if choice.is_set else _targets(choice.ids)
    found = Survey(0, [], 0)
    for found in survey(queue, pages, USUAL_BUDGET):
        session.progress.show(f"{found.count:,} counted")
    if not found.count:
        session.note(f"no {verb.jobs} of {queue.name} is chosen")
        return False
    more = ", …" if found.count > len(found.first) else ""
    consequence = verb.consequence(queue, found) if verb.consequence else ""
    where = f"{queue.server.shown}, queue {queue.name}: {', '.join(found.first)}{more}"
    confirm(session, f"{where}\n{verb.count(found.count)} {consequence}")
    return True


def _targets(words: Sequence[str]) -> list[list[Target]]:
    return [[item for item in page if isinstance(item, Target)] for page in named(map(encode, words))]


def confirm(session: Session, question: str) -> None:
    """Ask, and raise Refused unless the answer is ``yes``."""
    session.progress.clear()
    if session.ask(f"{question}\nType yes to go on: ") != "yes":
        raise Refused("not confirmed: nothing was changed", hint="the answer that counts is the whole word yes")


def _carry_out(
    session: Session, batches: Iterable[Sequence[Outcome]], queue: Queue, manner: Manner, verb: Verb
) -> None:
    """Print the records, then the account on stderr, and set the exit code.

    Printed are the jobs that were not changed; all of them with -o or -v and in a dry run; the ids of
    those that were with ``-o ids``.
    """
    tally = Tally()
    try:
        session.emit(_shown(session, batches, manner, tally), Outcome, columns=COLUMNS, empty=None)
    finally:
        session.note(_summary(tally, queue, manner, verb))
    session.exit_code = exit_codes.VERDICTS[tally.verdict]


def _shown(session: Session, batches: Iterable[Sequence[Outcome]], manner: Manner, tally: Tally) -> Iterator[Outcome]:
    ids_only = session.output_format == "ids"
    everything = manner.dry_run or session.chose_output or session.is_verbose
    handled = 0
    for outcomes in batches:
        for outcome in outcomes:
            tally.add(outcome)
        session.shield.answered()
        handled += len(outcomes)
        session.progress.show(f"{tally.done:,} done, {handled - tally.done:,} not")
        if ids_only:
            yield from (each for each in outcomes if each.is_done)
        else:
            yield from (each for each in outcomes if everything or not (each.is_done or each.was_so))
        session.flush()
        session.shield.end()


def _summary(tally: Tally, queue: Queue, manner: Manner, verb: Verb) -> str:
    would = "would have " if manner.dry_run else ""
    parts = [f"{would}{verb.past} {verb.count(tally.done)} of {queue.name}"]
    if tally.already:
        parts.append(f"{tally.already:,} so already")
    undone = dict(tally.undone)
    unanswered = undone.pop("no-answer", 0)
    if undone:
        parts.append("not: " + ", ".join(f"{count:,} {reason}" for reason, count in sorted(undone.items())))
    if unanswered:
        parts.append(f"{unanswered:,} no-answer: done or not")
    if tally.left:
        parts.append(f"{tally.left:,} had gone elsewhere meanwhile")
    parts += [f"{count:,} {note}" for note, count in sorted(tally.notes.items())]
    if verb.comes_back and tally.worn:
        have, them = ("has", "it at its") if tally.worn == 1 else ("have", "them at their")
        parts.append(
            f"{tally.worn:,} {have} spent {USUAL_BUDGET} or more attempts (up to {tally.attempts:,}): "
            f"a worker that allows no more buries {them} first failure"
        )
    return "; ".join(parts)
