"""Bringing dead jobs back to where they wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from emqctl.changes import Change, Outcome, Pace, apply, flags, usual_writes
from emqctl.errors import EmqError
from emqctl.flows import waited_for
from emqctl.queues import Queue
from emqctl.scripts import program
from emqctl.selection import Target


@dataclass(frozen=True)
class Options:
    """``force`` moves what a worker may still hold, ``reset_attempts`` gives the whole budget back."""

    force: bool = False
    reset_attempts: bool = False
    dry_run: bool = False


def requeue(
    queue: Queue, pages: Iterable[Sequence[Target | Outcome]], options: Options, pace: Pace
) -> Iterator[list[Outcome]]:
    """Move dead jobs to their own lane, or to flat pending; yield the outcomes batch by batch, in order.

    See ``changes.apply``. One program a batch; one more for children of flows in other queues.
    """
    change = _change(queue, options)
    for outcomes in apply(queue, change, pages, pace):
        try:
            abroad = _waited_for(queue, outcomes)
        except EmqError:
            yield outcomes
            raise
        if abroad:
            yield from _again(queue, change, outcomes, abroad, walked=pace.walked)
        else:
            yield outcomes


def _change(queue: Queue, options: Options) -> Change:
    keys = queue.keys
    return Change(
        program=program("requeue"),
        home=("dead",),
        left=("not-dead",),
        key=keys.dead,
        flags=flags(f=options.force, r=options.reset_attempts, d=options.dry_run),
        writes=usual_writes(keys, keys.dead, keys.pending),
        dry_run=options.dry_run,
    )


def _waited_for(queue: Queue, outcomes: Sequence[Outcome]) -> list[Target]:
    """Return the children whose parents in other queues are known to count on them, each once."""
    abroad = {each.id: each.attempts or 0 for each in outcomes if each.id is not None and each.reason == "cross-queue"}
    waited = waited_for(queue, list(abroad)) if abroad else ()
    return [Target(child, str(attempts).encode()) for child, attempts in abroad.items() if child in waited]


def _again(
    queue: Queue, change: Change, outcomes: Sequence[Outcome], abroad: Sequence[Target], *, walked: bool
) -> Iterator[list[Outcome]]:
    """Ask once more for children whose parents in other queues are known to wait; yield the batch as it ends."""
    told = replace(change, arguments=lambda target: (target.id, target.seen, "1"))
    made: dict[bytes | None, Outcome] = {}
    lost: EmqError | None = None
    try:
        for batch in apply(queue, told, [abroad], Pace(walked=walked)):
            made.update((each.id, each) for each in batch)
    except EmqError as error:
        lost = error
    yield [made.get(each.id, each) if each.reason == "cross-queue" else each for each in outcomes]
    if lost:
        raise lost
