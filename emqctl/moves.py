"""The changes of jobs that one program each makes: reap, promote, bury, move, remove, edit."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from emqctl import keyspace
from emqctl.branded import BrandedId
from emqctl.changes import Change, Outcome, Pace, apply, flags, usual_writes
from emqctl.keyspace import QueueKeys
from emqctl.lanes import first_pages, known_lanes
from emqctl.queues import Queue
from emqctl.scripts import program
from emqctl.selection import Target
from emqctl.walks import PAGE

BURIED = "buried by operator: "
REMOVABLE = {"pending": "pending", "scheduled": "schedule", "dead": "dead"}  # state -> the place it is

Pages = Iterable[Sequence[Target | Outcome]]


@dataclass(frozen=True)
class How:
    """``force`` also changes what a worker may still hold; ``dry_run`` changes nothing."""

    force: bool = False
    dry_run: bool = False

    def flags(self, **more: bool) -> str:
        """Return the letters programs take."""
        return flags(f=self.force, d=self.dry_run, **more)


def reap(queue: Queue, pages: Pages, how: How, pace: Pace) -> Iterator[list[Outcome]]:
    """Take jobs whose lease has lapsed from their workers, back to where they wait."""
    keys = queue.keys
    change = Change(
        program("reap"),
        home=("active",),
        left=("not-active", "not-lapsed"),
        key=keys.active,
        flags=how.flags(),
        writes=usual_writes(keys, keys.active, keys.pending),
        dry_run=how.dry_run,
    )
    return apply(queue, change, pages, pace)


def promote(queue: Queue, pages: Pages, how: How, pace: Pace, *, due: bool = False) -> Iterator[list[Outcome]]:
    """Let scheduled jobs wait now; only those whose time has come when ``due``."""
    keys = queue.keys
    change = Change(
        program("promote"),
        home=("schedule",),
        left=("not-scheduled", "not-due"),
        key=keys.schedule,
        flags=how.flags(u=due),
        writes=usual_writes(keys, keys.schedule, keys.pending),
        dry_run=how.dry_run,
    )
    return apply(queue, change, pages, pace)


def bury(queue: Queue, pages: Pages, how: How, pace: Pace, *, reason: str) -> Iterator[list[Outcome]]:
    """Take waiting or scheduled jobs out of service without losing them: into the dead set, with the reason."""
    keys = queue.keys
    change = Change(
        program("bury"),
        home=("pending", "lane", "schedule"),
        left=("not-waiting", "active"),
        key=keys.dead,
        flags=how.flags(),
        writes=usual_writes(keys, keys.dead, keys.pending, keys.schedule),
        leading=(keyspace.encode(BURIED + reason),),
        dry_run=how.dry_run,
    )
    return apply(queue, change, pages, pace)


def move(queue: Queue, pages: Pages, how: How, pace: Pace, *, group: BrandedId) -> Iterator[list[Outcome]]:
    """Give jobs that wait, are scheduled or dead to another lane."""
    keys = queue.keys
    change = Change(
        program("move"),
        home=("pending", "lane", "schedule", "dead"),
        left=(),
        key=keys.lane(group),
        flags=how.flags(),
        writes=usual_writes(keys, keys.lane(group), keys.pending),
        leading=(bytes(group),),
        dry_run=how.dry_run,
    )
    return apply(queue, change, pages, pace)


def remove(
    queue: Queue, pages: Pages, how: How, pace: Pace, *, state: str | None = None, dedup: bytes | None = None
) -> Iterator[list[Outcome]]:
    """Take jobs out of the queue for good, from wherever each is, or only from one ``state``.

    ``dedup`` is a deduplication id that is released if it belongs to one of them.
    """
    keys = queue.keys
    place = REMOVABLE[state] if state else ""
    if dedup is not None:
        keys.dedup(dedup)  # raises for what is no dedup id
    change = Change(
        program("remove"),
        home=("pending", "lane") if place == "pending" else (place,),
        left=(f"not-{place}",),
        key=keys.fixed(place) if place else keys.row(b""),
        flags=how.flags(),
        writes=[*usual_writes(keys, keys.pending, keys.active, keys.schedule, keys.dead), ("DEL", keys.row(b"x"))],
        leading=(place, dedup or b""),
        arguments=lambda target: target,
        dry_run=how.dry_run,
    )
    return apply(queue, change, pages if state else _met_in_lanes(queue, pages), pace)


def _met_in_lanes(queue: Queue, pages: Pages) -> Iterator[Sequence[Target | Outcome]]:
    """Say of ids without a row, which cannot tell their lane themselves, in which known lane they stand."""
    server, keys = queue.server, queue.keys
    for page in pages:
        targets = [item for item in page if isinstance(item, Target)]
        rows = server.ask(*(("EXISTS", keys.row(target.id)) for target in targets)) if targets else []
        lost = [target.id for target, exists in zip(targets, rows, strict=True) if not exists]
        met = _lanes_of(queue, lost) if lost else {}
        yield [item._replace(lane=met.get(item.id, b"")) if isinstance(item, Target) else item for item in page]


def _lanes_of(queue: Queue, members: Sequence[bytes]) -> dict[bytes, bytes]:
    server, keys = queue.server, queue.keys
    lanes = known_lanes(server, keys, server.ask(*first_pages(keys)))
    pairs = [(member, lane) for member in members for lane in lanes]
    met: dict[bytes, bytes] = {}
    for at in range(0, len(pairs), PAGE):
        some = pairs[at : at + PAGE]
        scores = server.try_ask(*(("ZSCORE", keys.lane(lane), member) for member, lane in some))
        met.update((member, bytes(lane)) for (member, lane), score in zip(some, scores, strict=True) if score == 0)
    return met


def edit(queue: Queue, job_id: BrandedId, old: bytes, new: bytes, how: How) -> Outcome:
    """Replace a payload if it still is ``old``; one program, one answer."""
    keys: QueueKeys = queue.keys
    change = Change(
        program("edit"),
        home=(),
        left=(),
        key=keys.job(job_id),
        flags=how.flags(),
        writes=[("HSET", keys.job(job_id), "payload", "x")],
        arguments=lambda target: (target.id, old, new),
        dry_run=how.dry_run,
    )
    [[outcome]] = apply(queue, change, [[Target(bytes(job_id))]], Pace())
    return outcome
