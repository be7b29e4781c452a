"""Parents that wait for children of whom nothing will be heard any more: counted over the whole database."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from emqctl import branded
from emqctl.audit.jobs import FIELDS, link_of, number, row_of
from emqctl.audit.rules import NOTE, PERSON, STUCK, YES, Family, Found
from emqctl.connection import Server
from emqctl.errors import EmqError
from emqctl.keyspace import EVERY_QUEUE_KEY, QueueKeys, decode, sort_suffix, split
from emqctl.presence import key_pages
from emqctl.queues import Queue
from emqctl.records import Finding
from emqctl.replies import Command, NotPermitted, permitted

FAMILY, ALL, HIDDEN = Family(), Family(), Family()
GRACE_MS = 60_000  # a flow over several queues is added node by node
MOST_FLOWS = 200_000  # parents that are remembered
OUTBOX_PAGE = 100  # entries, which hold results of any size
QUEUES_PAGE = 500  # outboxes asked for their length in one round trip
MOST_POSTED = 10_000  # entries of one outbox that are read
PARTS = 4  # of an outbox entry, at least

Flow = tuple[str, bytes]  # queue and id of a parent


@dataclass
class Waits:
    """Who waits for how many by their own count, and how many children live and settlements are under way.

    Of more than ``MOST_FLOWS`` parents nothing is said: ``is_whole`` is False then.
    """

    counts: dict[Flow, int] = field(default_factory=dict)
    living: Counter[Flow] = field(default_factory=Counter)
    dead: Counter[Flow] = field(default_factory=Counter)
    posted: Counter[Flow] = field(default_factory=Counter)
    is_whole: bool = True

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is: of the server."""
        return {}

    def hold(self, flow: Flow, count: int) -> None:
        """Take note of a held parent."""
        if self._has_room():
            self.counts[flow] = count

    def child(self, flow: Flow, *, is_dead: bool) -> None:
        """Take note of a child that has a row."""
        if self._has_room():
            (self.dead if is_dead else self.living)[flow] += 1

    def post(self, flow: Flow) -> None:
        """Take note of a settlement that no pump has delivered."""
        if self._has_room():
            self.posted[flow] += 1

    def lacking(self) -> dict[Flow, int]:
        """Return the parents that count on more than there is, with their counts."""
        return {flow: count for flow, count in self.counts.items() if count > self.sum(flow)} if self.is_whole else {}

    def sum(self, flow: Flow) -> int:
        """Return how many children can still tell a parent something."""
        return self.living[flow] + self.posted[flow]

    def _has_room(self) -> bool:
        self.is_whole &= len(self.counts) + len(self.living) + len(self.dead) + len(self.posted) < MOST_FLOWS
        return self.is_whole


@dataclass(frozen=True)
class Stuck:
    """A held parent, its count, and what there is."""

    queue: str
    id: bytes
    count: int
    sum: int
    dead: int

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "id": self.id, "place": "none"}


@FAMILY.rule(
    STUCK,
    "H4",
    "it waits for so many children: {count}, and so many can still tell it anything: {sum}; the others were removed, "
    "died in a sweep or finished unseen, and it waits for ever",
    PERSON,
)
def held_parent_stuck(stuck: Stuck) -> Found:
    """A held parent whose count is above its children that are not dead and the settlements under way."""
    if stuck.count <= stuck.sum:
        return None
    return {"count": stuck.count, "sum": stuck.sum, "hazard": "H14" if stuck.dead else "H4"}


@ALL.rule(NOTE, None, "there are more flows than can be counted: of parents that wait in vain nothing is said")
def too_many_flows(waits: Waits) -> Found:
    """More parents and children than are remembered."""
    return None if waits.is_whole else YES


@HIDDEN.rule(NOTE, None, "some queues are hidden from this user: of parents that wait in vain nothing is said")
def flows_hidden(_waits: Waits) -> Found:
    """Keys of queues that this user may not look into: a child or a settlement may be among them."""
    return YES


def entries(queue: Queue) -> Iterator[tuple[int, bytes]]:
    """Yield the entries of a queue's outbox with their positions, at most ``MOST_POSTED`` and a few."""
    outbox = queue.keys.fixed("flow:outbox")
    for at in range(0, MOST_POSTED + 1, OUTBOX_PAGE):
        [page] = permitted(queue.server.try_ask(("LRANGE", outbox, at, at + OUTBOX_PAGE - 1)))
        if isinstance(page, EmqError):
            return
        yield from enumerate(page, at)
        if len(page) < OUTBOX_PAGE:
            return


def flow_of(entry: bytes) -> Flow | None:
    """Return the parent an outbox entry is for; None for an entry that no pump can read."""
    parts = entry.split(b"\0", PARTS)
    if len(parts) < PARTS:
        return None
    is_death = parts[:2] == [b"", b"fail"]
    return (decode(parts[2]), parts[3]) if is_death else (decode(parts[0]), parts[1])


def judged(server: Server, waits: Waits) -> Iterator[Finding]:
    """Yield the parents that wait in vain; looks through all rows again where a first look found any.

    Counts, then children, then outboxes, then counts again: a child that settles meanwhile is missed in none of
    them or has changed the count. A parent younger than a minute may still be getting its children.
    """
    yield from ALL.judge(waits)
    now_ms = server.now_ms()
    old = [flow for flow in waits.lacking() if _age_ms(flow, now_ms) > GRACE_MS]
    before = _counts(server, old)
    if not before:
        return
    try:
        seen = _look_again(server, before)
    except NotPermitted:
        yield from HIDDEN.judge(waits)
        return
    after = _counts(server, before)
    for flow, count in seen.lacking().items():
        if after.get(flow) == count:
            yield from FAMILY.judge(Stuck(*flow, count, seen.sum(flow), seen.dead[flow]))


def _look_again(server: Server, counts: dict[Flow, int]) -> Waits:
    """Return the children and settlements there are of some parents. Raises NotPermitted where one may be hidden."""
    seen = Waits(counts)
    queues: set[str] = set()
    for page in key_pages(server, EVERY_QUEUE_KEY):
        _see(server, page, seen, queues)
    names = sorted(queues)
    for at in range(0, len(names), QUEUES_PAGE):
        some = [Queue(server, name) for name in names[at : at + QUEUES_PAGE]]
        sizes = permitted(server.try_ask(*(("LLEN", queue.keys.fixed("flow:outbox")) for queue in some)))
        for queue, size in zip(some, sizes, strict=True):
            flows = (flow_of(entry) for _, entry in entries(queue)) if size else ()
            for flow in flows:
                if flow in counts:
                    seen.post(flow)
    return seen


def _age_ms(flow: Flow, now_ms: int) -> int:
    return now_ms - branded.parse(flow[1]).minted_ms if branded.is_branded(flow[1]) else 0


def _counts(server: Server, flows: Iterable[Flow]) -> dict[Flow, int]:
    """Return the counts of those that are still held."""
    keys = [(flow, QueueKeys(flow[0])) for flow in flows]
    asked: list[list[Command]] = [
        [("HGET", of.row(flow[1]), "state"), ("GET", of.row(flow[1], "dependencies"))] for flow, of in keys
    ]
    counts = {}
    for (flow, _), replies in zip(keys, server.try_ask_each(asked), strict=True):
        state, raw = permitted(replies)
        count = None if isinstance(raw, EmqError) else number(raw)
        if state == b"awaiting_children" and count is not None:
            counts[flow] = count
    return counts


def _see(server: Server, page: Sequence[bytes], seen: Waits, queues: set[str]) -> None:
    """Count the children on a page of keys that are of the parents in question, and name the queues of the keys.

    Raises NotPermitted where a row is hidden.
    """
    rows: list[tuple[QueueKeys, bytes]] = []
    for key in page:
        queue, suffix = split(key) or (None, b"")
        if queue is None:
            continue
        queues.add(queue)  # of each the outbox is read: it may come to be after the scan has passed
        kind, name, sub = sort_suffix(suffix)
        if kind == "job" and sub is None:
            rows.append((QueueKeys(queue), name))
    replies = (
        permitted(server.try_ask(*(("HMGET", keys.row(member), *FIELDS) for keys, member in rows))) if rows else []
    )
    links = [(keys, member, link_of(keys, row_of(reply))) for (keys, member), reply in zip(rows, replies, strict=True)]
    ours = [
        (keys, member, (link.keys.queue, link.id))
        for keys, member, link in links
        if link and link.keys and (link.keys.queue, link.id) in seen.counts
    ]
    scores = server.try_ask(*(("ZSCORE", keys.dead, member) for keys, member, _ in ours)) if ours else []
    for (_, _, flow), score in zip(ours, scores, strict=True):
        seen.child(flow, is_dead=isinstance(score, float))
