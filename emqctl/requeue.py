"""Bringing dead jobs back to where they wait."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from emqctl.changes import Change, Outcome, Pace, apply
from emqctl.errors import EmqError
from emqctl.flows import is_waited_for
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
        abroad = [each for each in outcomes if each.reason == "cross-queue" and is_waited_for(queue, each.id)]
        if abroad:
            yield from _again(queue, change, outcomes, abroad)
        else:
            yield outcomes


def _change(queue: Queue, options: Options) -> Change:
    letters = {"f": options.force, "r": options.reset_attempts, "d": options.dry_run}
    keys = queue.keys
    row, fixed = keys.row(b"JOB00000000000"), keys.fixed
    return Change(
        program=program("requeue"),
        place="dead",
        key=keys.dead,
        flags="".join(letter for letter, wanted in letters.items() if wanted),
        arguments=lambda target: (target.id, target.seen, ""),
        writes=(
            ("ZADD", keys.pending, 0, "x"),
            ("ZREM", keys.dead, "x"),
            ("HSET", row, "state", "pending"),
            ("HDEL", row, "stalled"),
            ("HINCRBY", row, "attempts", 1),
            ("RPUSH", fixed("ring"), "x"),
            ("LREM", fixed("ring"), 0, "x"),
            ("LPUSH", fixed("wake"), "1"),
            ("LTRIM", fixed("wake"), 0, 63),
        ),
        dry_run=options.dry_run,
    )


def _again(
    queue: Queue, change: Change, outcomes: Sequence[Outcome], abroad: Sequence[Outcome]
) -> Iterator[list[Outcome]]:
    """Ask once more for children whose parents in other queues are known to wait; yield the batch as it ends."""
    told = replace(change, arguments=lambda target: (target.id, target.seen, "1"))
    targets = [Target(each.id, b"" if each.attempts is None else str(each.attempts).encode()) for each in abroad]
    made: dict[bytes, Outcome] = {}
    lost: EmqError | None = None
    try:
        for batch in apply(queue, told, [targets], Pace()):
            made.update((each.id, each) for each in batch)
    except EmqError as error:
        lost = error
    yield [made.get(each.id, each) for each in outcomes]
    if lost:
        raise lost
