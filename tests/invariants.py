"""What must hold of a whole queue and of its flows, looked at in one step; nothing of emqctl's own is used.

``BROKEN`` are the rules that sound producers, workers and changes keep: the protocol's invariants.
``NOTES`` are findings that an operator wants to see but that break nothing.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from math import inf
from typing import Any, NamedTuple

import redis
from worlds import Snapshot, Value

#: Broken invariant -> what its detail holds. The first group is named as in data/README.md.
BROKEN = {
    "dangling": "places",
    "bad_member": "places",
    "bad_row_id": "",
    "row_wrong_type": "type",
    "wrong_type_key": "type",
    "ghost_row": "",
    "in_two_places": "places",
    "state_mismatch": "place, state",
    "row_in_no_set": "",
    "grouped_in_flat_pending": "",
    "group_mismatch": "place, group",
    "gactive_mismatch": "counter, active rows",
    "lane_starved": "",
    "lane_on_ring_not_serviceable": "",
    "lane_on_ring_twice": "times",
    "held_parent_ready": "count",
    "held_parent_stuck": "count, children that can still report",
    "child_without_parent": "",
    "orphan_subkeys": "subs",
    "repeat_without_record": "",
    "repeat_record_without_member": "",
    "outbox_malformed_at": "index",
    # Stricter than the recorded audit:
    "parent_count_mismatch": "count, children it counts on",
    "held_parent_failed": "children",
    "dead_parent_unfailed": "",
    "gactive_not_positive": "counter",
    "bad_number": "where, text",
}
STRICTER = ("parent_count_mismatch", "held_parent_failed", "dead_parent_unfailed", "gactive_not_positive", "bad_number")
NOTES = {
    "paused_lane_with_backlog": "",
    "schedule_overdue": "",
    "active_expired": "",
    "repeat_overdue": "",
    "lock_field_without_ttl": "",
    "lock_string": "",
    "dedup_dangling": "",
    "unknown_suffix": "",
}

#: Rules whose detail is two numbers that should be equal: worse is a wider gap.
_GAPS = ("gactive_mismatch", "held_parent_stuck", "parent_count_mismatch")
#: Rules whose detail lists places: worse is one more.
_SPREADS = ("dangling", "bad_member", "in_two_places", "orphan_subkeys")

_TYPES = {
    **dict.fromkeys(("pending", "active", "schedule", "dead", "repeat"), "zset"),
    **dict.fromkeys(("ring", "wake", "flow:outbox", "metrics:completed:data", "metrics:failed:data"), "list"),
    **dict.fromkeys(("gactive", "glimit", "gweight", "meta", "metrics:completed", "metrics:failed"), "hash"),
    "paused": "set",
    "limiter": "string",
}
_SUBS = ("lock", "logs", "dependencies", "processed", "failed", "unsuccessful")
_WORDS = {"pending": b"pending", "active": b"active", "schedule": b"scheduled", "dead": b"dead"}

_KEY = re.compile(rb"emq:\{([^}]+)\}:(.*)", re.DOTALL)
_ROW = re.compile(rb"job:([^:]*)(?::(.*))?", re.DOTALL)
_LANE = re.compile(rb"g:([^:]{14}):pending")
_NAMED = re.compile(rb"(de|repeat|stream):(.+)", re.DOTALL)
_ID = re.compile(rb"[A-Z]{3}[0-9A-Za-z]{11}")
_NUMBER = re.compile(rb"0|-?[1-9][0-9]{0,14}")
_LARGEST = b"AzL8n0Y58m7"

_LOOK = """
local read = {
  string = function(key) return redis.call('GET', key) end,
  hash = function(key) return redis.call('HGETALL', key) end,
  list = function(key) return redis.call('LRANGE', key, 0, -1) end,
  set = function(key) return redis.call('SMEMBERS', key) end,
  zset = function(key) return redis.call('ZRANGE', key, 0, -1, 'WITHSCORES') end,
}
local found = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
  local kind = redis.call('TYPE', key).ok
  local lock_ttl = {}
  if kind == 'hash' and redis.call('HEXISTS', key, 'lock') == 1 then
    lock_ttl = redis.pcall('HPTTL', key, 'FIELDS', 1, 'lock')
  end
  found[#found + 1] = {
    key, kind, read[kind] and read[kind](key) or '', redis.call('PTTL', key), lock_ttl.err and -1 or lock_ttl[1] or -1
  }
end
return { redis.call('TIME'), found }
"""


class Finding(NamedTuple):
    """One thing that is not as it should be; ``BROKEN`` and ``NOTES`` say what ``detail`` holds."""

    queue: str
    rule: str
    subject: bytes
    detail: tuple[Any, ...] = ()


@dataclass
class QueueView:
    """One queue taken apart. A key of a wrong type counts as empty."""

    name: str
    rows: dict[bytes, dict[bytes, bytes]] = field(default_factory=dict)
    odd_rows: dict[bytes, str] = field(default_factory=dict)  # member -> type of what is no hash
    subs: defaultdict[bytes, dict[str, Value]] = field(default_factory=lambda: defaultdict(dict))
    sets: dict[str, dict[bytes, float]] = field(default_factory=dict)  # `pending` … `dead`, `lane:G` -> member -> score
    lanes: dict[bytes, dict[bytes, float]] = field(default_factory=dict)
    fixed: dict[str, Any] = field(default_factory=dict)  # what the other keys that stand alone hold
    named: dict[tuple[str, bytes], Value] = field(default_factory=dict)  # dedup keys, repeat records, streams
    lock_ttls: dict[bytes, int] = field(default_factory=dict)
    wrong: dict[str, str] = field(default_factory=dict)  # place -> its type
    unknown: list[bytes] = field(default_factory=list)

    @cached_property
    def places(self) -> dict[bytes, list[str]]:
        """Member -> every place it is in."""
        places: defaultdict[bytes, list[str]] = defaultdict(list)
        for place, members in self.sets.items():
            for member in members:
                places[member].append(place)
        return dict(places)

    @cached_property
    def in_flight(self) -> Counter[bytes]:
        """Group -> rows of that group in ``active``, lapsed or not."""
        rows = (self.rows.get(member, {}) for member in self.sets.get("active", ()))
        return Counter(row[b"group"] for row in rows if b"group" in row)

    @property
    def ring(self) -> list[bytes]:
        """The rota."""
        return list(self.fixed.get("ring", ()))

    def counter(self, group: bytes) -> int | None:
        """``gactive`` of a lane, 0 where there is none, None where it is no number."""
        return number(self.fixed.get("gactive", {}).get(group, b"0"))

    def limit(self, group: bytes) -> int | float | None:
        """The lane's limit, infinite where there is none, None where it is no number."""
        limits = self.fixed.get("glimit", {})
        return number(limits[group]) if group in limits else inf

    def is_servable(self, group: bytes) -> bool | None:
        """Whether a lane belongs on the ring; None where it has a limit and that or the counter is no number."""
        is_open = bool(self.lanes.get(group)) and group not in self.fixed.get("paused", ())
        counter, limit = self.counter(group), self.limit(group)
        if limit == inf:
            return is_open
        return None if counter is None or limit is None else is_open and counter < limit

    def sub(self, member: bytes, sub: str) -> Any:
        """What hangs below a row, None if nothing does."""
        return self.subs[member][sub].content if sub in self.subs.get(member, {}) else None

    def count(self, parent: bytes) -> int | None:
        """How many children a parent waits for by its own account; None for no number."""
        raw = self.sub(parent, "dependencies")
        return number(raw) if isinstance(raw, bytes) else None

    def told(self, parent: bytes, sub: str) -> dict[bytes, bytes]:
        """Child -> what the parent was told of it: `processed`, `failed` or `unsuccessful`."""
        told = self.sub(parent, sub)
        return told if isinstance(told, dict) else {}

    def is_held(self, member: bytes) -> bool:
        """Whether a job waits for its children."""
        return self.rows.get(member, {}).get(b"state") == b"awaiting_children" and not self.places.get(member)

    def is_dead_by_children(self, member: bytes) -> bool:
        """Whether a child killed this job, which never ran itself."""
        row = self.rows.get(member, {})
        quiet = row.get(b"attempts", b"0") == b"0" and b"last_error" not in row
        return quiet and row.get(b"state") == b"dead" and self.places.get(member) == ["dead"]


class Link(NamedTuple):
    """A child of a flow, by the queue of its row."""

    queue: str
    child: bytes


class Entry(NamedTuple):
    """An undelivered settlement for a parent elsewhere; a policy of None: the child is done."""

    queue: str
    child: bytes
    policy: bytes | None


@dataclass(frozen=True)
class Look:
    """Everything in the database at one moment."""

    now_ms: int
    keys: Snapshot
    lock_ttls: dict[bytes, int]

    @cached_property
    def queues(self) -> dict[str, QueueView]:
        """Every queue that has a key."""
        queues: dict[str, QueueView] = {}
        for key, value in self.keys.items():
            if (shaped := _KEY.fullmatch(key)) and shaped[1] != b"emq":
                name = shaped[1].decode("utf-8", "surrogateescape")
                _file(queues.setdefault(name, QueueView(name)), shaped[2], value, self.lock_ttls.get(key))
        return queues

    @cached_property
    def ids(self) -> set[tuple[str, bytes]]:
        """Every job there is: with a row, or in a set or lane."""
        return {
            (name, member)
            for name, view in self.queues.items()
            for member in (*view.rows, *view.odd_rows, *view.places)
        }

    @cached_property
    def payloads(self) -> dict[tuple[str, bytes], bytes]:
        """The payload of every row that has one."""
        return {
            (name, member): row[b"payload"]
            for name, view in self.queues.items()
            for member, row in view.rows.items()
            if b"payload" in row
        }

    @cached_property
    def links(self) -> dict[tuple[str, bytes], list[Link]]:
        """(queue, parent) -> its children that have a row."""
        links: defaultdict[tuple[str, bytes], list[Link]] = defaultdict(list)
        for name, view in self.queues.items():
            for member, row in view.rows.items():
                if b"parent" in row:
                    links[parent_of(name, row)].append(Link(name, member))
        return links

    @cached_property
    def posted(self) -> dict[tuple[str, bytes], list[Entry]]:
        """(queue, parent) -> settlements that no pump has delivered."""
        posted: defaultdict[tuple[str, bytes], list[Entry]] = defaultdict(list)
        for name, view in self.queues.items():
            for raw in view.fixed.get("flow:outbox", ()):
                parts = raw.split(b"\0")
                if parts[:2] == [b"", b"fail"] and len(parts) > 6:
                    posted[_text(parts[2]), parts[3]].append(Entry(name, parts[4], parts[5]))
                elif len(parts) > 3:
                    posted[_text(parts[0]), parts[1]].append(Entry(name, parts[2], None))
        return posted

    @cached_property
    def findings(self) -> list[Finding]:
        """All that is broken and all notes, queue by queue."""
        return [
            Finding(name, *found)
            for name, view in sorted(self.queues.items())
            for rules in (_jobs, _lanes, _flows, _keys, _named, _times)
            for found in rules(view, self)
        ]

    @cached_property
    def broken(self) -> list[Finding]:
        """All that is broken."""
        return [finding for finding in self.findings if finding.rule in BROKEN]


def look(client: redis.Redis) -> Look:
    """Read the whole database in one step."""
    (seconds, micros), found = client.eval(_LOOK, 0)
    keys, lock_ttls = {}, {}
    for key, kind, content, ttl_ms, lock_ttl_ms in found:
        kind_word = kind.decode()
        keys[key] = Value(kind_word, _SHAPES.get(kind_word, _as_is)(content), ttl_ms if ttl_ms >= 0 else None)
        if lock_ttl_ms > 0:
            lock_ttls[key] = lock_ttl_ms
    return Look(int(seconds) * 1000 + int(micros) // 1000, dict(sorted(keys.items())), lock_ttls)


def worse(before: Look, after: Look) -> list[Finding]:
    """Return what is broken after and was not before, or not as much."""
    known = {finding[:3]: _weight(finding) for finding in before.broken}
    return [finding for finding in after.broken if _weight(finding) > known.get(finding[:3], -1)]


def conserved(
    before: Look,
    after: Look,
    removed: Collection[tuple[str, bytes]] = (),
    added: Collection[tuple[str, bytes]] = (),
) -> list[str]:
    """Return a line for each job that was lost or made, and each payload that changed; none if all is as said.

    ``removed`` and ``added`` are jobs, as (queue, id), that may.
    """
    lost = before.ids - after.ids - set(removed)
    made = after.ids - before.ids - set(added)
    changed = {
        job
        for job, payload in before.payloads.items()
        if job not in removed and job in after.ids and after.payloads.get(job) != payload
    }
    lines = {"lost": lost, "made": made, "payload changed": changed}
    return [f"{what}: {queue} {member!r}" for what, jobs in lines.items() for queue, member in sorted(jobs)]


def parent_of(queue: str, row: dict[bytes, bytes]) -> tuple[str, bytes]:
    """Return the parent that a child's row names, as (queue, id)."""
    return _text(row[b"parent_queue"]) if row.get(b"parent_queue") else queue, row[b"parent"]


def has_field_ttls(client: redis.Redis) -> bool:
    """Tell whether this server can let one field of a hash expire."""
    try:
        client.hpttl("none", "field")
    except redis.ResponseError:
        return False
    return True


def number(raw: bytes) -> int | None:
    """Read a number as servers do, None for anything else."""
    return int(raw) if _NUMBER.fullmatch(raw) else None


def is_id(raw: bytes, namespace: bytes = b"") -> bool:
    """Tell whether these bytes are a branded id."""
    return _ID.fullmatch(raw) is not None and raw[3:] <= _LARGEST and raw.startswith(namespace)


def _weight(finding: Finding) -> int:
    if finding.rule in _GAPS:
        one, other = finding.detail
        return abs(one - other)
    return len(finding.detail) if finding.rule in _SPREADS else 0


def _file(view: QueueView, suffix: bytes, value: Value, lock_ttl_ms: int | None) -> None:
    """Put one key where it belongs."""
    name = suffix.decode("utf-8", "surrogateescape")
    lane, row, named = _LANE.fullmatch(suffix), _ROW.fullmatch(suffix), _NAMED.fullmatch(suffix)
    if name in _TYPES or (lane and is_id(lane[1])):
        place = f"lane:{_text(lane[1])}" if lane else name
        if value.type != (kind := "zset" if lane else _TYPES[name]):
            view.wrong[place] = value.type
        elif lane:
            view.lanes[lane[1]] = view.sets[place] = value.content
        elif kind == "zset" and name != "repeat":
            view.sets[place] = value.content
        else:
            view.fixed[name] = value.content
    elif row and row[2] is None:
        if value.type == "hash":
            view.rows[row[1]] = value.content
            if lock_ttl_ms:
                view.lock_ttls[row[1]] = lock_ttl_ms
        else:
            view.odd_rows[row[1]] = value.type
    elif row and _text(row[2]) in _SUBS:
        view.subs[row[1]][_text(row[2])] = value
    elif named:
        view.named[_text(named[1]), named[2]] = value
    else:
        view.unknown.append(suffix)


_Found = Iterator[tuple[str, bytes, tuple[Any, ...]]]


def _jobs(view: QueueView, _: Look) -> _Found:
    """Each job has a row with a payload, is in one place, and its row says which."""
    for member, places in view.places.items():
        if not is_id(member, b"JOB"):
            yield "bad_member", member, tuple(places)
        elif member not in view.rows and member not in view.odd_rows:
            yield "dangling", member, tuple(places)
        if len(places) > 1:
            yield "in_two_places", member, tuple(places)
    for member, kind in view.odd_rows.items():
        yield "row_wrong_type", member, (kind,)
    for member, row in view.rows.items():
        if not is_id(member):
            yield "bad_row_id", member, ()
            continue
        if b"payload" not in row:
            yield "ghost_row", member, ()
        if number(row.get(b"attempts", b"0")) is None:
            yield "bad_number", member, ("attempts", row[b"attempts"])
        yield from _place_of(view, member, row)


def _place_of(view: QueueView, member: bytes, row: dict[bytes, bytes]) -> _Found:
    places, state, group = view.places.get(member, []), row.get(b"state"), row.get(b"group")
    if not places and state != b"awaiting_children":
        yield "row_in_no_set", member, ()
    wrong = [place for place in places if _WORDS.get(place, b"pending") != state]
    if wrong:
        yield "state_mismatch", member, (wrong[-1], state)
    if group is not None and "pending" in places:
        yield "grouped_in_flat_pending", member, ()
    for place in places:
        if place.startswith("lane:") and place != f"lane:{_text(group or b'')}":
            yield "group_mismatch", member, (place, group)


def _lanes(view: QueueView, _: Look) -> _Found:
    """The counters are true, and the ring holds exactly the lanes that can be served, once each."""
    counters, limits, ring = view.fixed.get("gactive", {}), view.fixed.get("glimit", {}), Counter(view.ring)
    for group in sorted({*counters, *limits, *view.in_flight, *view.lanes, *ring}):
        counter, active = view.counter(group), view.in_flight[group]
        for name, texts in (("gactive", counters), ("glimit", limits)):
            if number(texts.get(group, b"0")) is None:
                yield "bad_number", group, (name, texts[group])
        if counter is not None and counter != active:
            yield "gactive_mismatch", group, (counter, active)
        if counter is not None and group in counters and counter <= 0:
            yield "gactive_not_positive", group, (counter,)
        servable = view.is_servable(group)
        if servable and not ring[group]:
            yield "lane_starved", group, ()
        if servable is False and ring[group]:
            yield "lane_on_ring_not_serviceable", group, ()
        if ring[group] > 1:
            yield "lane_on_ring_twice", group, (ring[group],)
        if view.lanes.get(group) and group in view.fixed.get("paused", ()):
            yield "paused_lane_with_backlog", group, ()


def _flows(view: QueueView, whole: Look) -> _Found:
    """Parents wait for exactly what is outstanding, and children have a parent."""
    for member, row in view.rows.items():
        if b"parent" in row:
            queue, parent = parent_of(view.name, row)
            there = whole.queues.get(queue, QueueView(queue))
            if parent not in there.rows and parent not in there.odd_rows:
                yield "child_without_parent", member, ()
        if b"payload" not in row:
            continue
        if view.is_held(member):
            yield from _held(view, whole, member)
        elif view.is_dead_by_children(member):
            yield from _counted(view, whole, member)
            if not view.told(member, "failed"):
                yield "dead_parent_unfailed", member, ()


def _held(view: QueueView, whole: Look, parent: bytes) -> _Found:
    count, failed = view.count(parent), view.told(parent, "failed")
    if count is None or count <= 0:
        yield "held_parent_ready", parent, (count,)
    if failed:
        yield "held_parent_failed", parent, tuple(failed)
    links, posted = whole.links.get((view.name, parent), []), whole.posted.get((view.name, parent), [])
    living = sum("dead" not in whole.queues[queue].places.get(child, ()) for queue, child in links)
    if count is not None and count > living + len(posted):
        yield "held_parent_stuck", parent, (count, living + len(posted))
    yield from _counted(view, whole, parent)


def _counted(view: QueueView, whole: Look, parent: bytes) -> _Found:
    """A parent counts on its children that were not told as ignored, and on those dead ones that are gone or cut.

    A settlement under way counts as its child, once.
    """
    linked = {child for _, child in whole.links.get((view.name, parent), [])}
    told = {sub: set(view.told(parent, sub)) for sub in ("processed", "failed", "unsuccessful")}
    under_way = {child for _, child, _ in whole.posted.get((view.name, parent), [])}
    gone_or_cut = (told["failed"] | (under_way - told["processed"] - told["unsuccessful"])) - linked
    expected = (linked - told["unsuccessful"]) | gone_or_cut
    count = view.count(parent)
    if count is not None and count != len(expected):
        yield "parent_count_mismatch", parent, (count, len(expected))


def _keys(view: QueueView, _: Look) -> _Found:
    """Each key is of its type and belongs to something."""
    for place, kind in view.wrong.items():
        yield "wrong_type_key", place.encode(), (kind,)
    for member, subs in view.subs.items():
        if member not in view.rows and member not in view.odd_rows:
            yield "orphan_subkeys", member, tuple(sorted(subs))
        elif "lock" in subs:
            yield "lock_string", member, ()
    for member, row in view.rows.items():
        if b"lock" in row and member not in view.lock_ttls:
            yield "lock_field_without_ttl", member, ()
    for suffix in view.unknown:
        yield "unknown_suffix", suffix, ()


def _named(view: QueueView, _: Look) -> _Found:
    """Repeats, deduplication keys and settlements are whole."""
    repeats, records = view.fixed.get("repeat", {}), {name for kind, name in view.named if kind == "repeat"}
    for name in sorted(repeats.keys() - records):
        yield "repeat_without_record", name, ()
    for name in sorted(records - repeats.keys()):
        yield "repeat_record_without_member", name, ()
    for (kind, name), value in view.named.items():
        if kind == "de" and not (isinstance(value.content, bytes) and value.content in view.rows):
            yield "dedup_dangling", name, ()
    for nth, entry in enumerate(view.fixed.get("flow:outbox", ())):
        if entry.count(b"\0") < 3:
            yield "outbox_malformed_at", b"flow:outbox", (nth,)
            break


def _times(view: QueueView, whole: Look) -> _Found:
    """What should have happened by now."""
    timed = {
        "active_expired": view.sets.get("active", {}),
        "schedule_overdue": view.sets.get("schedule", {}),
        "repeat_overdue": view.fixed.get("repeat", {}),
    }
    for rule, scores in timed.items():
        yield from ((rule, member, ()) for member, score in scores.items() if score <= whole.now_ms)


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "surrogateescape")


def _as_is(content: Any) -> Any:
    return content


def _pairs(content: list[bytes]) -> Iterable[tuple[bytes, bytes]]:
    return zip(content[::2], content[1::2], strict=True)


_SHAPES = {
    "hash": lambda content: dict(_pairs(content)),
    "set": set,
    "zset": lambda content: {member: float(score) for member, score in _pairs(content)},
}
