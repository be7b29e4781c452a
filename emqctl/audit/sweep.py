"""One audit: a pass over the keys, then queue by queue, then what only the whole tells."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from emqctl.audit import first, flows, jobs, lanes, leftovers, places, pumps, rows, servers, times, waits, whole
from emqctl.audit.first import Standing
from emqctl.audit.rules import NOTE, STUCK
from emqctl.audit.times import Moment
from emqctl.audit.waits import Waits
from emqctl.audit.whole import Whole
from emqctl.connection import Server
from emqctl.keyspace import EVERY_QUEUE_KEY, QueueKeys, sort_suffix, split
from emqctl.presence import key_pages, require_deployment
from emqctl.queues import Queue
from emqctl.records import Finding
from emqctl.replies import permitted
from emqctl.slots import slot_of

MOST_LANES = 100_000  # lanes that are remembered, of all queues together
MOST_MET = 100_000  # suspects of lanes that are remembered
MOST_TOLD = 100_000  # findings that are remembered, so that a key a scan meets twice is told of once
JOB_FAMILIES = (places.FAMILY, rows.FAMILY, flows.FAMILY)
JOB_RULES = {rule for family in JOB_FAMILIES for rule in family.rules}
SYMPTOMATIC = {  # rule -> the level from which it tells of who does not serve a queue
    **dict.fromkeys(("active_expired", "schedule_overdue", "repeat_overdue"), STUCK),
    **dict.fromkeys(("repeat_fired_twice", "lock_field_without_ttl"), NOTE),
}


@dataclass
class Page:
    """What a page of keys holds of one queue."""

    rows: list[bytes] = field(default_factory=list)
    subs: list[tuple[bytes, str]] = field(default_factory=list)
    lanes: list[bytes] = field(default_factory=list)
    dedups: list[bytes] = field(default_factory=list)
    repeats: list[bytes] = field(default_factory=list)
    strange: list[bytes] = field(default_factory=list)

    def take(self, suffix: bytes) -> None:
        """Put a key where it belongs."""
        kind, name, sub = sort_suffix(suffix)
        if kind is None:
            self.strange.append(suffix)
        elif kind == "job":
            self.rows.append(name) if sub is None else self.subs.append((name, sub))
        elif kind == "lane":
            self.lanes.append(name)
        elif kind == "dedup":
            self.dedups.append(suffix)
        elif kind == "repeat" and suffix != b"repeat":
            self.repeats.append(name)


class Audit:
    """The findings about a server and some of its queues, or all; ``looked_at`` counts the keys met so far.

    ``watch`` is told of that count page by page.
    """

    def __init__(
        self, server: Server, names: Collection[str] = (), watch: Callable[[int], None] = lambda _looked_at: None
    ) -> None:
        self.looked_at = 0
        self._watch = watch
        self.queues: set[str] = set(names)
        self._server = server
        self._names = frozenset(names)
        self._memory = Memory()

    def __iter__(self) -> Iterator[Finding]:
        yield from servers.look(self._server)
        for page in key_pages(self._server, self._pattern):
            self.looked_at += len(page)
            self._watch(self.looked_at)
            for name, part in self._sorted(page).items():
                yield from self._memory.pass_on(self._page(Queue(self._server, name), part))
        if not self.queues:
            require_deployment(self._server)
        moving = servers.moving_slots(self._server)
        for name in sorted(self.queues):
            queue = Queue(self._server, name)
            is_moving = slot_of(queue.keys.prefix) in moving
            yield from self._memory.pass_on(self._queue(queue, slot_moves=is_moving))
        yield from waits.judged(self._server, self._memory.waits)
        yield from servers.symptoms(self._server, self._memory.symptoms)

    @property
    def _pattern(self) -> bytes:
        return QueueKeys(next(iter(self._names))).scan_pattern if len(self._names) == 1 else EVERY_QUEUE_KEY

    def _sorted(self, page: Sequence[bytes]) -> dict[str, Page]:
        """Return what a page of keys holds of each queue that is looked at."""
        parts: defaultdict[str, Page] = defaultdict(Page)
        for key in page:
            name, suffix = split(key) or (None, b"")
            if name is not None and (not self._names or name in self._names):
                parts[name].take(suffix)
        self.queues.update(parts)
        return parts

    def _page(self, queue: Queue, part: Page) -> Iterator[Finding]:
        """Yield what keys of a queue on one page tell."""
        locked = [member for member, sub in part.subs if sub == "lock"]
        parents = [member for member, sub in part.subs if sub == "dependencies"]
        unusual = first.unusual_rows(queue, part.rows, self._memory.waits)
        suspects = [*unusual, *locked, *first.busy_parents(queue, parents)]
        yield from self._closer(queue, [(member, None) for member in suspects])
        yield from leftovers.subkeys(queue, part.subs)
        yield from leftovers.dedups(queue, part.dedups)
        yield from leftovers.repeats(queue, part.repeats)
        yield from leftovers.strange(queue, part.strange)
        self._memory.keep_lanes(queue.name, part.lanes)
        lanes = [Standing(queue.keys.lane_as_named(group), "lane", group) for group in part.lanes]
        yield from self._members(queue, lanes, Counter())

    def _queue(self, queue: Queue, *, slot_moves: bool) -> Iterator[Finding]:
        """Yield what a queue tells beside its rows and lanes."""
        yield from whole.wrong_keys(queue)
        flying: Counter[bytes] = Counter()
        sets = [Standing(queue.keys.fixed(place), place) for place in jobs.SETS]
        yield from self._members(queue, sets, flying)
        yield from self._repeats(queue)
        facts = whole.look(queue)
        facts.slot_moves = slot_moves
        yield from self._lane_findings(queue, flying, facts)
        self._read_outbox(queue, facts)
        yield from whole.FAMILY.judge(facts)

    def _members(self, queue: Queue, sets: Sequence[Standing], flying: Counter[bytes]) -> Iterator[Finding]:
        """Yield what the members of some sets tell; count the jobs in flight by lane."""
        for met, wrong in first.walk(queue, sets):
            for standing, error in wrong:
                yield from whole.wrong_lane(queue, standing.lane, error) if standing.lane else ()
            members = list(first.read_members(queue, met))
            flying.update(each.group for each in members if each.group is not None and each.at.place == "active")
            yield from self._closer(queue, [(each.id, each.at.lane) for each in members if each.is_unusual])
            timed = [each for each in members if each.is_late and each.at.place in {"active", "schedule"}]
            yield from _late(queue, [(each.at, each.id, each.group) for each in timed])

    def _closer(self, queue: Queue, suspects: Iterable[tuple[bytes, bytes | None]]) -> Iterator[Finding]:
        """Yield what a closer look at suspects finds; with each, the lane it was met in."""
        met = {member: self._memory.meet(queue.name, member, lane) for member, lane in suspects}
        for job in jobs.look(queue, met):
            yield from (finding for family in JOB_FAMILIES for finding in family.judge(job))

    def _repeats(self, queue: Queue) -> Iterator[Finding]:
        """Yield what the repeats that are registered tell."""
        for met, _ in first.walk(queue, [Standing(queue.keys.fixed("repeat"), "repeat")]):
            named = [(name, score) for _, name, score in met if name]
            yield from leftovers.repeats(queue, [name for name, _ in named])
            yield from pumps.look(queue, named)
            now_ms = self._server.now_ms()
            yield from _late(queue, [(at, name, None) for at, name, score in met if score <= now_ms])

    def _lane_findings(self, queue: Queue, flying: Counter[bytes], facts: Whole) -> Iterator[Finding]:
        """Yield what the lanes of a queue tell, wherever they are named."""
        suspects = []
        for lane in lanes.in_queue(queue, self._memory.lanes[queue.name], flying):
            facts.has_lanes = True
            suspects += [lane.group] if any(lanes.FAMILY.judge(lane)) else []
        unjudged = False
        for lane in lanes.closely(queue, suspects):
            unjudged |= lane.rung is None or lane.flying is None
            yield from lanes.FAMILY.judge(lane)
        if unjudged:
            facts.too_many.append("jobs in flight or lanes on the ring, for lanes to be judged by")
        if queue.name in self._memory.forgotten_lanes:
            facts.too_many.append(f"{MOST_LANES:,} lanes")

    def _read_outbox(self, queue: Queue, facts: Whole) -> None:
        nth = -1
        for nth, entry in waits.entries(queue):
            flow = waits.flow_of(entry)
            if flow is not None:
                self._memory.waits.post(flow)
            elif facts.malformed_at is None:
                facts.malformed_at = nth
        if nth >= waits.MOST_POSTED:
            facts.too_many.append(f"{waits.MOST_POSTED:,} settlements in the outbox")
            self._memory.waits.is_whole = False


class Memory:
    """What one part of an audit has to know of another, bounded."""

    def __init__(self) -> None:
        self.waits = Waits()
        self.lanes: defaultdict[str, set[bytes]] = defaultdict(set)
        self.forgotten_lanes: set[str] = set()
        self.symptoms: defaultdict[str, dict[str, None]] = defaultdict(dict)  # rule -> queues, in order
        self._lanes_kept = 0
        self._met: dict[tuple[str, bytes], set[bytes]] = {}
        self._told: set[int] = set()

    def keep_lanes(self, queue: str, groups: Sequence[bytes]) -> None:
        """Remember lanes that hold jobs."""
        if self._lanes_kept + len(groups) > MOST_LANES:
            self.forgotten_lanes.add(queue)
            return
        self._lanes_kept += len(groups)
        self.lanes[queue].update(groups)

    def meet(self, queue: str, member: bytes, lane: bytes | None) -> Collection[bytes]:
        """Return the lanes in which a suspect was met, this one included."""
        known = self._met.get((queue, member), set())
        if lane is not None:
            known = {*known, lane}
            if len(self._met) < MOST_MET:
                self._met[queue, member] = known
        return known

    def pass_on(self, findings: Iterable[Finding]) -> Iterator[Finding]:
        """Yield findings that were not told before, and remember which queues tell of who is missing.

        An id may be a suspect in several places, and is told of with those that were known at first.
        """
        for finding in findings:
            place = None if finding.rule in JOB_RULES else finding.place
            name = hash((finding.queue, finding.rule, finding.id, finding.id is None and finding.lane, place))
            if name in self._told:
                continue
            if len(self._told) >= MOST_TOLD:
                self._told.clear()
            self._told.add(name)
            if finding.level == SYMPTOMATIC.get(finding.rule):
                self.symptoms[finding.rule][str(finding.queue)] = None
            yield finding


def _late(queue: Queue, met: Sequence[tuple[Standing, bytes, bytes | None]]) -> Iterator[Finding]:
    """Yield what is said of members whose time has come, if they still are where they were met."""
    asked = [("ZSCORE", standing.key, member) for standing, member, _ in met]
    scores = permitted(queue.server.try_ask(*asked)) if asked else []
    now_ms = queue.server.now_ms()
    for (standing, member, group), score in zip(met, scores, strict=True):
        if isinstance(score, float):
            yield from times.FAMILY.judge(Moment(queue.name, standing.place, member, group, now_ms - score))
