"""Which jobs a change is for: ids named one by one, or a set chosen by filters."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, cast

import click

from emqctl.cli import complete
from emqctl.cli.options import LIMIT, Function, job_filters, options
from emqctl.cli.session import Session
from emqctl.errors import BadUsage
from emqctl.selection import Filters


@dataclass(frozen=True)
class Choice:
    """Which jobs a change is for: ids named one by one, or a set."""

    ids: tuple[str, ...] = ()
    everything: bool = False
    filters: Filters = field(default_factory=Filters)
    limit: int = 0

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


def job_choice(function: Function) -> Function:
    """Add the ways to choose jobs; the command receives them, checked, as ``choice``."""

    @wraps(function)
    def gathered(*arguments: Any, **given: Any) -> Any:
        words = (given.pop(name) for name in ("ids", "everything", "filters", "limit"))
        choice = Choice(*words)
        choice.check()
        return function(*arguments, choice=choice, **given)

    ways = options(
        click.argument("ids", nargs=-1, metavar="[ID]...|-", shell_complete=complete.job_ids),
        click.option("--all", "everything", is_flag=True, help="Every job of the state."),
        job_filters,
        click.option("-n", "--limit", type=LIMIT, metavar="N", default=0, help="At most N, the oldest; 0 is all."),
    )
    return ways(cast("Function", gathered))


def named_jobs(*, required: bool) -> Callable[[Function], Function]:
    """Add ids, or ``-``, as the one way to choose jobs; the command receives them as ``ids``."""
    metavar = "ID...|-" if required else "[ID]...|-"
    return click.argument("ids", nargs=-1, required=required, metavar=metavar, shell_complete=complete.job_ids)


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
