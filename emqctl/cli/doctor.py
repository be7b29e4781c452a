"""``emqctl doctor``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, Any, cast

import click

from emqctl.cli import exit_codes
from emqctl.cli.changing import confirm, refuse_read_only
from emqctl.cli.options import Command, Function, options, pass_session, queue_argument
from emqctl.cli.session import Session
from emqctl.errors import BadUsage, Refused
from emqctl.records import LEVELS, Finding

if TYPE_CHECKING:
    from emqctl.cli.pen import Pen
    from emqctl.connection import Server

COLUMNS = ("level", "rule", "hazard", "queue", "id", "lane", "place", "meaning", "repair")
SHOWN = ("level", "rule", "queue", "id", "lane", "place", "repair", "meaning")
FIXED = ("result", "reason")  # columns of a repair
NAMED = 3  # queues a question names


@dataclass(frozen=True)
class Fixing:
    """Whether to repair, and how."""

    fix: bool
    dry_run: bool
    yes: bool
    accept_version: str | None
    note: str | None

    def check(self) -> None:
        """Raise BadUsage for what only a repair can be told."""
        if not self.fix and any((self.dry_run, self.yes, self.accept_version, self.note)):
            raise BadUsage("--dry-run, --yes, --note and --accept-version go with --fix")

    @property
    def asks(self) -> bool:
        """Whether the operator is asked first."""
        return self.fix and not (self.yes or self.dry_run)


def fixing_options(function: Function) -> Function:
    """Add whether and how to repair; the command receives it as ``fixing``."""

    @wraps(function)
    def gathered(*arguments: Any, **given: Any) -> Any:
        fixing = Fixing(*(given.pop(name) for name in ("fix", "dry_run", "yes", "accept_version", "note")))
        fixing.check()
        return function(*arguments, fixing=fixing, **given)

    return options(
        click.option("--fix", is_flag=True, help="Make the repairs that cannot lose a job; asks first."),
        click.option("--dry-run", is_flag=True, help="With --fix: print what would be repaired; change nothing."),
        click.option("--yes", is_flag=True, help="With --fix: do not ask."),
        click.option("--note", metavar="TEXT", help="With --fix: goes into the journal with the repairs."),
        click.option("--accept-version", metavar="VALUE", help="Repair a deployment of this unknown wire version."),
    )(cast("Function", gathered))


@click.command(
    "doctor",
    cls=Command,
    record=Finding,
    columns=(*COLUMNS, *FIXED),
    always=COLUMNS,
    short_help="Find what is broken or stuck, say what it means, repair it.",
    examples=("emqctl doctor", "emqctl doctor orders --level stuck", "emqctl doctor orders --fix --dry-run"),
)
@queue_argument("queues", nargs=-1)
@click.option(
    "--level", type=click.Choice(LEVELS), default="note", help="Only what is at least that bad.  [default: note]"
)
@fixing_options
@pass_session
def command(session: Session, /, queues: tuple[str, ...], level: str, fixing: Fixing) -> None:
    """Look through queues, or all there are, for whatever is not as EchoMQ's own rules have it.

    Each finding is broken (a rule fails), stuck (nobody serves it) or a note (normal, but worth knowing), and
    comes with the command that repairs it. Exit code 9 when something is broken or stuck. Safe beside running
    workers: it reads in small steps, and looks twice before it says anything.
    """
    from emqctl.audit import Audit, in_order
    from emqctl.queues import Queue

    _check_permitted(session, fixing)
    with session.server() as server:
        for name in queues:
            Queue(server, name).look(counting=True)
        if fixing.fix and not fixing.dry_run:
            server.check_writes(fixing.accept_version)
        if fixing.asks:
            _confirm(session, server, in_order(Audit(server, queues, _watch(session)), level))
        audit, account = Audit(server, queues, _watch(session)), Account()
        chunks: Iterable[Sequence[Finding]] = in_order(audit, level)
        try:
            _print(session, _repaired(session, server, chunks, fixing) if fixing.fix else chunks, account, fixing)
        finally:
            where = f"{_count(len(audit.queues), 'queue')}, {_count(audit.looked_at, 'key')} looked at"
            session.note(f"{where}: {account.summary(fixing)}")
    session.exit_code = account.exit_code


def _check_permitted(session: Session, fixing: Fixing) -> None:
    """Refuse, before anything is sent, what this run may not do, or would have to ask and cannot."""
    if fixing.fix:
        refuse_read_only(session, dry_run=fixing.dry_run)
    stdin = session.environment.stdin
    if fixing.asks and (stdin is None or not stdin.isatty()):
        hint = "pass --yes, or look first with --dry-run"
        raise Refused("doctor --fix asks first, and stdin is no terminal to answer at", hint=hint)


def _watch(session: Session) -> Any:
    return lambda looked_at: session.progress.show(f"{looked_at:,} keys looked at")


def _confirm(session: Session, server: Server, chunks: Iterable[Sequence[Finding]]) -> None:
    """Ask, if there is anything to repair. Raises Refused unless the answer is ``yes``."""
    from emqctl.repairs import repair_of

    rules: Counter[str] = Counter()
    queues: Counter[str] = Counter()
    for chunk in chunks:
        ours = [finding for finding in chunk if repair_of(finding)]
        rules.update(finding.rule for finding in ours)
        queues.update(str(finding.queue) for finding in ours)
    if not rules:
        return
    more = ", …" if len(queues) > NAMED else ""
    where = f"{server.shown}, {', '.join(sorted(queues)[:NAMED])}{more}"
    what = ", ".join(f"{count:,} {rule}" for rule, count in sorted(rules.items()))
    count = _count(rules.total(), "repair")
    confirm(session, f"{where}\n{count}: {what}; no job is deleted, and each is looked at again before it is changed.")


def _repaired(
    session: Session, server: Server, chunks: Iterable[Sequence[Finding]], fixing: Fixing
) -> Iterator[Sequence[Finding]]:
    """Repair what was found, chunk by chunk, and write it down; yield findings with what became of them."""
    from emqctl.repairs import repair

    pens: dict[str, Pen] = {}

    def begin(queue: str, ids: Sequence[bytes]) -> None:
        if not fixing.dry_run:
            pens.setdefault(queue, session.open_journal(queue, note=fixing.note)).begin(ids)
        session.shield.begin()

    for chunk in chunks:
        for batch in repair(server, chunk, begin, dry_run=fixing.dry_run):
            if batch.queue in pens and batch.outcomes:
                pens[batch.queue].end(batch.outcomes)
            yield batch.findings
            session.shield.end()


def _print(session: Session, chunks: Iterable[Sequence[Finding]], account: Account, fixing: Fixing) -> None:
    """Print findings; of repairs those that were not made, all with -o or -v and in a dry run; ids alone once each."""
    from emqctl.repairs import is_settled

    shows_all = not fixing.fix or fixing.dry_run or session.chose_output or session.is_verbose
    ids_only = session.output_format == "ids"
    columns: tuple[str, ...] = ("id",) if ids_only else (*COLUMNS, *FIXED) if fixing.fix else COLUMNS
    shown = (*FIXED, *SHOWN) if fixing.fix else SHOWN

    def records() -> Iterator[Finding]:
        for chunk in chunks:
            for finding in chunk:
                account.add(finding)
            if ids_only:
                ours = (each for each in chunk if each.id is not None and (each.is_fixed or not fixing.fix))
                yield from {finding.id: finding for finding in ours}.values()
            else:
                yield from (each for each in chunk if shows_all or (each.result and not is_settled(each)))

    session.emit(records(), Finding, columns=columns, shown=shown, empty=None)


@dataclass
class Account:
    """What a run found, and what became of it: ``left`` is what is broken or stuck still."""

    levels: Counter[str] = field(default_factory=Counter)
    fixed: Counter[str] = field(default_factory=Counter)
    undone: Counter[str] = field(default_factory=Counter)
    for_fix: int = 0
    left: int = 0

    def add(self, finding: Finding) -> None:
        """Count a finding."""
        from emqctl.repairs import FOR_A_PERSON, is_settled, repair_of

        self.levels[finding.level] += 1
        self.for_fix += repair_of(finding) is not None
        if finding.is_fixed:
            self.fixed[finding.rule] += 1
        elif not is_settled(finding):
            self.left += finding.level != "note"
            if finding.result and finding.reason != FOR_A_PERSON:
                self.undone[str(finding.reason)] += 1

    @property
    def exit_code(self) -> int:
        """Tell how the run went.

        =========================================  ===
        some repairs were made and some refused      3
        repairs were wanted and all were refused     5
        else, something is broken or stuck           9
        else                                         0
        =========================================  ===
        """
        if self.undone:
            return exit_codes.PARTLY if self.fixed else exit_codes.REFUSED
        return exit_codes.NO if self.left else exit_codes.DONE

    def summary(self, fixing: Fixing) -> str:
        """Say it in a sentence."""
        broken, stuck, notes = (self.levels[level] for level in reversed(LEVELS))
        parts = [f"{broken:,} broken, {stuck:,} stuck, {_count(notes, 'note')}"]
        if fixing.fix:
            fixed = ", ".join(f"{count:,} {rule}" for rule, count in sorted(self.fixed.items())) or "none"
            parts.append(f"{'would be ' if fixing.dry_run else ''}repaired: {fixed}")
            undone = ", ".join(f"{count:,} {reason}" for reason, count in sorted(self.undone.items()))
            parts += [f"not: {undone}"] if undone else []
            parts += [f"{self.left:,} broken or stuck are left"] if self.left else []
        elif self.for_fix:
            parts.append(f"--fix repairs {self.for_fix:,} of them")
        return "; ".join(parts)


def _count(number: int, thing: str) -> str:
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
