"""Taking stock of a queue before it is deleted: how much it holds, and which flows of other queues depend on it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from emqctl.errors import EmqError
from emqctl.keyspace import KeyName, decode, encode, parse
from emqctl.presence import key_pages
from emqctl.queues import Queue
from emqctl.replies import Command
from emqctl.walks import PAGE

FIRST = 3  # ids that stand for all

_FAIL = b"\0fail\0"  # what an outbox entry of a dead child begins with
_ADDRESS = 3  # parts of an entry before what is told: queue, parent, child


@dataclass(frozen=True, order=True)
class Tie:
    """A job of the queue, and how a flow of another queue depends on it."""

    id: bytes
    how: str


@dataclass
class Stock:
    """What a queue holds: keys, jobs with a row, of these some ids, jobs in flight, ties to other queues."""

    keys: int = 0
    jobs: int = 0
    first: list[str] = field(default_factory=list)
    active: int = 0
    ties: list[Tie] = field(default_factory=list)


def take_stock(queue: Queue) -> Iterator[Stock]:
    """Scan the keys of a queue; yield what it holds after each page, with its ties in the end.

    Ties are parents elsewhere that wait for a job here or for word of one, and jobs here that count on
    more children than there are here.
    """
    server, keys = queue.server, queue.keys
    stock = Stock()
    ties: set[Tie] = set()
    children: defaultdict[bytes, set[bytes]] = defaultdict(set)
    counting: set[bytes] = set()
    [active] = server.try_ask(("ZCARD", keys.active))
    stock.active = 0 if isinstance(active, EmqError) else active
    for page in key_pages(server, keys.scan_pattern):
        names = [parse(key) for key in page]
        rows = job_rows(names)
        stock.keys += len(page)
        stock.jobs += len(rows)
        stock.first = (stock.first + [decode(each) for each in rows[:FIRST]])[:FIRST]
        counting.update(encode(str(name.id)) for name in names if name.sub == "dependencies")
        links = server.try_ask(*(("HMGET", keys.row(each), "parent", "parent_queue") for each in rows))
        for child, link in zip(rows, links, strict=True):
            parent, abroad = (None, None) if isinstance(link, EmqError) else link
            if parent and abroad and decode(abroad) != queue.name:
                ties.add(Tie(child, f"parent {decode(parent)} of {decode(abroad)} waits for it"))
            elif parent:
                children[parent].add(child)
        yield stock
    stock.ties = sorted({*ties, *_in_outbox(queue), *_children_elsewhere(queue, counting, children)})
    yield stock


def job_rows(names: Iterable[KeyName]) -> list[bytes]:
    """Return the ids of the jobs whose rows are among some keys."""
    return [encode(name.id) for name in names if name.type == "job" and name.id is not None and name.sub is None]


def _in_outbox(queue: Queue) -> Iterator[Tie]:
    at, entries = 0, [b""] * PAGE
    while len(entries) == PAGE:
        [entries] = queue.server.try_ask(("LRANGE", queue.keys.fixed("flow:outbox"), at, at + PAGE - 1))
        if isinstance(entries, EmqError):
            return
        at += PAGE
        for entry in entries:
            parts = entry.removeprefix(_FAIL).split(b"\0", _ADDRESS)
            if len(parts) > _ADDRESS:
                elsewhere, parent, child = map(decode, parts[:_ADDRESS])
                yield Tie(encode(child), f"its end is not yet told to parent {parent} of {elsewhere}")


def _children_elsewhere(queue: Queue, parents: Iterable[bytes], children: Mapping[bytes, set[bytes]]) -> Iterator[Tie]:
    """Yield the parents that count on more children than are linked here.

    Dead children that were to be ignored are not counted any more; those that killed their parent still are,
    even where their row is gone.
    """
    terms: list[tuple[bytes, int, Command]] = []
    missing: Counter[bytes] = Counter()
    for parent in parents:
        here = children.get(parent, set())
        count, failed, ignored = (queue.keys.row(parent, sub) for sub in ("dependencies", "failed", "unsuccessful"))
        missing[parent] = -len(here)
        terms += [(parent, 1, ("GET", count)), (parent, -1, ("HLEN", failed))]
        terms += [(parent, 1, ("HEXISTS", told, child)) for told in (failed, ignored) for child in here]
    rest = iter(terms)
    while some := list(islice(rest, PAGE)):
        replies = queue.server.try_ask(*(command for _, _, command in some))
        for (parent, sign, _), reply in zip(some, replies, strict=True):
            missing[parent] += sign * _number(reply)
    for parent, number in missing.items():
        if number > 0:
            yield Tie(parent, f"waits for {number} {'child' if number == 1 else 'children'} more than there are here")


def _number(reply: Any) -> int:
    """Return a reply as a number, 0 for what is none."""
    if isinstance(reply, int):
        return reply
    return int(reply) if isinstance(reply, bytes) and reply.isdigit() else 0
