"""Two queues on an empty server, everyone who acts on them, and how each step is looked at.

A step of EchoMQ may add the damage it is known for and no other (``damage.Damage``); a step of emqctl may
add none, and answers and writes exactly what the rules say (``expected.Oracle``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Any, ClassVar

import invariants
import redis
import worlds
from damage import Damage, Held, Operator
from expected import Answer, Oracle, keys_differ
from invariants import Finding, Look, QueueView, is_id
from worlds import Value

from emqctl import branded, moves
from emqctl.branded import BrandedId
from emqctl.changes import WOULD, Outcome, Pace, named
from emqctl.connection import Server
from emqctl.demo.worker import Claimed, Rejected
from emqctl.errors import Denied
from emqctl.keyspace import QueueKeys, encode
from emqctl.queues import Queue
from emqctl.requeue import Options, requeue
from emqctl.selection import Target

HOUR_MS = 3_600_000
QUEUES = ("jobs", "away")
LANES = tuple(bytes(BrandedId("TEN", nth << 22)) for nth in (1, 2, 3))
NOBODY = bytes(BrandedId("JOB", 1 << 61))  # an id that is never minted
PARENT = bytes(BrandedId("JOB", 1 << 60))  # of a flow made up by hand
DEDUP = b"order-1"
REASON = "poison"

#: Change -> the places in which it finds its jobs.
HOMES = {
    "requeue": ("dead",),
    "reap": ("active",),
    "promote": ("schedule",),
    "bury": ("pending", "lane", "schedule"),
    "move": ("lane", "pending", "schedule", "dead"),
    "remove": ("pending", "lane", "active", "schedule", "dead"),
    "edit": ("pending", "lane", "active", "schedule", "dead"),
}
#: Commands that changes send; for each there is a user who may not send it.
COMMANDS = ("zadd", "zrem", "hset", "hdel", "hincrby", "rpush", "lrem", "lpush", "ltrim", "del", "sadd", "srem")
#: States a parent made up by hand can be in.
PARENTS = {
    "absent": None,
    "ghost": {"state": "awaiting_children"},
    "held": {"state": "awaiting_children", "attempts": 0, "payload": "{}"},
    "held and dead": {"state": "awaiting_children", "attempts": 0, "payload": "{}", "in": "dead"},
    "pending": {"state": "pending", "attempts": 0, "payload": "{}", "in": "pending"},
    "active": {"state": "active", "attempts": 1, "payload": "{}", "in": "active"},
    "scheduled": {"state": "scheduled", "attempts": 1, "payload": "{}", "in": "schedule"},
    "dead by a child": {"state": "dead", "attempts": 0, "payload": "{}", "in": "dead"},
    "dead after a run": {"state": "dead", "attempts": 1, "payload": "{}", "in": "dead"},
    "dead of an error": {"state": "dead", "attempts": 0, "payload": "{}", "in": "dead", "last_error": "boom"},
}
TELLINGS = ("processed", "failed", "unsuccessful")
_STATES = {"pending": "pending", "schedule": "scheduled", "dead": "dead"}  # place -> what ``remove`` calls it

Command = tuple[Any, ...]


@dataclass(frozen=True)
class Asked:
    """How a change is asked for; what a change has no use for is left aside."""

    force: bool = False
    dry: bool = False
    batch: int = 100
    reset: bool = False
    due: bool = False
    group: bytes = LANES[0]
    state: str = ""
    dedup: bool = False
    seen: bytes = b""  # attempts that the choice was made by
    met_in: bytes = b""  # lane that the job was met in
    old: bytes | None = None  # payload an editor saw, None for the true one
    new: bytes = b"edited"


@dataclass
class Account:
    """What happened, over all runs."""

    steps: int = 0
    verbs: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    damage: Counter[str] = field(default_factory=Counter)

    def lines(self) -> Iterator[str]:
        """Yield what there is to say of it."""
        for name in ("verbs", "answers", "damage"):
            yield f"  {name}: " + ", ".join(f"{what} {times:,}" for what, times in sorted(getattr(self, name).items()))


class Scene:
    """An empty server to act on. ``now`` is always what stands there."""

    client: ClassVar[redis.Redis]
    servers: ClassVar[Callable[[str], Server]]  # user ('' for all rights) -> emqctl's connection
    account: ClassVar[Account]
    has_field_ttls: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.client.flushall()
        self.queue = {name: Operator(self.client, name) for name in QUEUES}
        self.now = invariants.look(self.client)
        self.ids = (bytes(BrandedId("JOB", nth << 22)) for nth in count(1))
        self.fences: dict[tuple[str, bytes], int] = {}  # job -> the last token that emqctl made worthless

    # Steps of EchoMQ

    def acts(self, verb: str, queue: str, *args: Any, **account: Any) -> Any:
        """Let a producer, worker or operator of EchoMQ do something; see ``does``."""
        for name in ("added", "removed"):
            account[name] = [job if isinstance(job, tuple) else (queue, job) for job in account.get(name, ())]
        return self.does(verb, lambda: getattr(self.queue[queue], verb)(*args), **account)

    def does(
        self,
        verb: str,
        act: Callable[[], Any],
        *,
        damage: Damage | None = None,
        added: Sequence[tuple[str, bytes]] = (),
        removed: Sequence[tuple[str, bytes]] = (),
    ) -> Any:
        """Take a step of EchoMQ's; None for one it refused, which must have changed nothing."""
        self._count(verb)
        before, answer = self.now, None
        try:
            answer = act()
        except Rejected:
            self.now = invariants.look(self.client)
            assert keys_differ(self.now.keys, before.keys) == []
            return None
        self.now = invariants.look(self.client)
        allowed = damage or {}
        for finding in invariants.worse(before, self.now):
            assert finding[:3] in allowed, f"{verb} broke {finding}"
            self.account.damage[f"{allowed[finding[:3]]} {finding.rule}"] += 1
        ghosts = [(queue, member) for queue, rule, member in allowed if rule == "ghost_row"]
        assert invariants.conserved(before, self.now, removed, [*added, *ghosts]) == []
        assert fallen(before, self.now) == []
        return answer

    def claims(self, verb: str, queue: str, *args: int, damage: Damage) -> list[Held]:
        """Let a worker claim; return what it then holds."""
        claimed = self.acts(verb, queue, *args, damage=damage)
        jobs = [claimed] if isinstance(claimed, Claimed) else claimed or []
        return [Held(queue, job.id, job.token) for job in jobs]

    def settles(self, verb: str, job: Held, *args: Any, damage: Damage, **account: Any) -> None:
        """Let a worker settle or beat: its token decides, and one that emqctl fenced off is refused."""
        accepted = self.acts(verb, job.queue, job.id, job.token, *args, damage=damage, **account) is not None
        assert accepted is damage.accepts(job)
        assert not (accepted and job.token <= self.fences.get((job.queue, job.id), 0)), f"{job} was not fenced off"

    def lapses(self, queue: str, job: bytes) -> None:
        """Let a lease be over."""
        self.does("lapse", lambda: self.client.zadd(self.queue[queue].keys.active, {job: 1}, xx=True))

    def damage(self, queue: str) -> Damage:
        """Return what a step may break as things stand, filled in by the step's name."""
        return Damage(self.now, queue)

    # Steps of emqctl

    def change(
        self, name: str, queue: str, targets: Sequence[Target], how: Asked, pages: Any = None, user: str = ""
    ) -> None:
        """Let emqctl change jobs, and compare what it answers and writes with what it should.

        ``pages`` are the targets as a walk meets them. A user who may not send a command that is needed
        changes nothing.
        """
        oracle = Oracle(self.now, queue, force=how.force, dry=how.dry)
        answers = self._expected(name, oracle, queue, targets, how)
        before = self.now
        try:
            outcomes = self.changes(
                name,
                oracle,
                lambda: self.act(name, queue, targets, how, pages, user),
                lambda made: _gone(queue, made),
                how,
            )
        except Denied:
            self.now = invariants.look(self.client)
            assert user
            assert keys_differ(self.now.keys, before.keys) == []
            self.account.answers[f"{name} denied"] += 1
            return
        assert [_answer(outcome) for outcome in outcomes] == answers
        for answer in answers:
            self.account.answers[f"{name} {answer.reason or answer.result}{' dry' if how.dry else ''}"] += 1
        if not how.dry:
            self._remember(queue, before, outcomes, is_reset=how.reset and name == "requeue")

    def changes(
        self,
        name: str,
        oracle: Oracle,
        act: Callable[[], Any],
        gone: Callable[[Any], Sequence[tuple[str, bytes]]] = lambda _: (),
        how: Asked | None = None,
    ) -> Any:
        """Take a step of emqctl's: it breaks nothing, loses nothing, and writes what the oracle does."""
        self._count(f"emqctl {name}")
        before, answer = self.now, act()
        self.now = invariants.look(self.client)
        removed = gone(answer)
        new = [finding for finding in invariants.worse(before, self.now) if not _is_left(before, finding, removed)]
        assert new == [], f"{name} broke {new}"
        assert keys_differ(self.now.keys, oracle.keys) == [], answer
        edited = [*before.payloads] if name == "edit" else []
        assert invariants.conserved(before, self.now, [*removed, *edited]) == []
        assert name != "edit" or before.ids == self.now.ids
        assert (how and how.reset) or fallen(before, self.now) == []
        return answer

    def act(
        self, name: str, queue: str, targets: Sequence[Target], how: Asked, pages: Any = None, user: str = ""
    ) -> list[Outcome]:
        """Let emqctl do it."""
        there, pace, plain = Queue(self.servers(user), queue), Pace(batch=how.batch), moves.How(how.force, how.dry)
        if name == "edit":
            [target] = targets
            if not is_id(target.id, b"JOB"):
                return [Outcome(target.id, "skipped", "malformed")]
            return [moves.edit(there, branded.parse(target.id), self._old(queue, target.id, how), how.new, plain)]
        if pages is None:
            is_plain = all(target == Target(target.id) for target in targets)
            pages = named(target.id for target in targets) if is_plain else [targets]
        dedup, state = DEDUP if how.dedup else None, _STATES.get(how.state)
        made: dict[str, Callable[[], Iterator[list[Outcome]]]] = {
            "requeue": lambda: requeue(there, pages, Options(how.force, how.reset, how.dry), pace),
            "reap": lambda: moves.reap(there, pages, plain, pace),
            "promote": lambda: moves.promote(there, pages, plain, pace, due=how.due),
            "bury": lambda: moves.bury(there, pages, plain, pace, reason=REASON),
            "move": lambda: moves.move(there, pages, plain, pace, group=branded.parse(how.group)),
            "remove": lambda: moves.remove(there, pages, plain, pace, state=state, dedup=dedup),
        }
        return list(chain.from_iterable(made[name]()))

    def in_a_bubble(self, commands: Sequence[Command], name: str, queue: str, job: bytes, how: Asked) -> None:
        """Break something by hand, change a job, then make everything as it was."""
        fences, before = dict(self.fences), self.damaged(commands)
        try:
            self.change(name, queue, [Target(job, how.seen, how.met_in)], how)
        except AssertionError as error:
            raise AssertionError(f"{name} of {job!r} after {commands}: {error}") from error
        self.undo(self.now, before)
        self.fences = fences

    def damaged(self, commands: Sequence[Command]) -> Look:
        """Send commands by hand; return what stood before."""
        before = self.now
        worlds.send(self.client, commands)
        self.now = invariants.look(self.client)
        return before

    def undo(self, after: Look, before: Look) -> None:
        """Make the database as it was."""
        for key in {*after.keys, *before.keys}:
            if after.keys.get(key) != before.keys.get(key) or after.lock_ttls.get(key) != before.lock_ttls.get(key):
                worlds.send(self.client, _written(key, before.keys.get(key), before.lock_ttls.get(key)))
        self.now = invariants.look(self.client)
        assert keys_differ(self.now.keys, before.keys) == []

    # What stands there

    def view(self, queue: str) -> QueueView:
        """Return a queue as it stands."""
        return self.now.queues.get(queue, QueueView(queue))

    def jobs_in(self, queue: str, places: Sequence[str]) -> list[bytes]:
        """Return the jobs that have a row and are in one of the places, in order."""
        view = self.view(queue)
        members = chain.from_iterable(view.sets.get(place, ()) for place in places)
        in_lanes = chain.from_iterable(view.lanes.values()) if "lane" in places else ()
        return sorted({*members, *in_lanes} & view.rows.keys())

    def damages(self, queue: str, job: bytes, group: bytes) -> dict[str, list[Command]]:
        """Return what can be wrong with a job, by what is done by hand; ``group`` is where it may be moved."""
        return dict(_damages(self.queue[queue].keys, self.view(queue), job, group, has_field_ttls=self.has_field_ttls))

    def adoption(
        self, queue: str, job: bytes, parent: str, waits_for: bytes | None, told: Sequence[str], where: str
    ) -> list[Command]:
        """Return the commands that make a job the child of a parent in whatever state.

        ``where``: `here`, `named` for here by name, `away`, `posted` for away with a settlement under way.
        """
        there = queue if where in {"here", "named"} else QUEUES[queue == QUEUES[0]]
        keys, row = self.queue[there].keys, self.queue[there].keys.row(PARENT)
        link = ["parent", PARENT] if where == "here" else ["parent", PARENT, "parent_queue", there]
        commands: list[Command] = [("HSET", self.queue[queue].keys.row(job), *link)]
        fields = PARENTS[parent]
        if fields:
            words = chain.from_iterable((name, text) for name, text in fields.items() if name != "in")
            commands.append(("HSET", row, *words))
        if fields and "in" in fields:
            commands.append(("ZADD", keys.fixed(str(fields["in"])), 4e12, PARENT))
        if waits_for is not None:
            commands.append(("SET", row + b":dependencies", waits_for))
        commands += [("HSET", row + b":" + encode(sub), job, "x") for sub in told]
        if where == "posted":
            entry = b"\0".join((encode(there), PARENT, job, b"done"))
            commands.append(("RPUSH", self.queue[queue].keys.fixed("flow:outbox"), entry))
        return commands

    def _expected(self, name: str, oracle: Oracle, queue: str, targets: Sequence[Target], how: Asked) -> list[Answer]:
        """Ask the oracle what becomes of jobs, batch by batch."""
        text, dedup = encode(f"buried by operator: {REASON}"), DEDUP if how.dedup else b""

        def remove(it: Target) -> Answer:
            met_in = it.lane if how.state else oracle.lane_of_lost(it.id)
            return oracle.remove(it.id, it.seen, state=how.state, met_in=met_in, dedup=dedup)

        handle: dict[str, Callable[[Target], Answer]] = {
            "requeue": lambda it: oracle.requeue(it.id, it.seen, reset=how.reset),
            "reap": lambda it: oracle.reap(it.id, it.seen),
            "promote": lambda it: oracle.promote(it.id, it.seen, due=how.due),
            "bury": lambda it: oracle.bury(it.id, it.seen, text=text),
            "move": lambda it: oracle.move(it.id, it.seen, group=how.group),
            "remove": remove,
            "edit": lambda it: oracle.edit(it.id, self._old(queue, it.id, how), how.new),
        }
        answers: list[Answer] = []
        known: set[bytes] = set()
        for at in range(0, len(targets), how.batch):
            some, made = targets[at : at + how.batch], []
            for target in some:
                is_word = is_id(target.id, b"JOB")
                reason = "duplicate" if target.id in known else None if is_word else "malformed"
                made.append(Answer("skipped", reason, "", "") if reason else handle[name](target))
                known |= {target.id} if is_word else set()
            oracle.end_batch()
            for nth, answer in enumerate(made):
                if answer.reason == "cross-queue" and oracle.is_waited_for_abroad(some[nth].id):
                    made[nth] = oracle.requeue(some[nth].id, reset=how.reset, untold=True)
            oracle.end_batch()
            answers += made
        return answers

    def _remember(self, queue: str, before: Look, outcomes: Sequence[Outcome], *, is_reset: bool) -> None:
        """Keep which tokens have become worthless, and which may become good again."""
        rows = before.queues.get(queue, QueueView(queue)).rows
        for outcome in outcomes:
            if outcome.result == "moved" and "fenced" in outcome.notes:
                self.fences[queue, outcome.id] = int(rows[outcome.id].get(b"attempts", b"0"))
            elif outcome.result == "removed" or (outcome.result == "moved" and is_reset):
                self.fences.pop((queue, outcome.id), None)

    def _old(self, queue: str, job: bytes, how: Asked) -> bytes:
        return self.view(queue).rows.get(job, {}).get(b"payload", b"") if how.old is None else how.old

    def _count(self, verb: str) -> None:
        self.account.steps += 1
        self.account.verbs[verb] += 1


def bound(scene: Scene, queue: str, job: bytes, how: Asked, seen: str) -> Asked:
    """Let a choice have been made by attempts: `any`, `true` or `other`; and say where a job in a lane was met."""
    attempts = scene.view(queue).rows.get(job, {}).get(b"attempts", b"0")
    lane = next((lane for lane in LANES if job in scene.view(queue).lanes.get(lane, ())), b"")
    return replace(how, seen={"any": b"", "true": attempts, "other": b"99"}[seen], met_in=lane)


def one_of(jobs: Sequence[bytes], pick: int) -> bytes | None:
    """Return one of some jobs, None of none."""
    return jobs[pick % len(jobs)] if jobs else None


def fallen(before: Look, after: Look) -> list[str]:
    """Return a line for each job whose attempts are fewer than they were."""
    lines = []
    for name, view in before.queues.items():
        rows = after.queues[name].rows if name in after.queues else {}
        for member in view.rows.keys() & rows.keys():
            was, is_ = (invariants.number(row.get(b"attempts", b"")) for row in (view.rows[member], rows[member]))
            if was is not None and is_ is not None and is_ < was:
                lines.append(f"attempts of {name} {member!r} fell from {was} to {is_}")
    return lines


def _damages(
    keys: QueueKeys, view: QueueView, job: bytes, target: bytes, *, has_field_ttls: bool
) -> Iterator[tuple[str, list[Command]]]:
    row, dedup = keys.row(job), keys.dedup(DEDUP)
    group = view.rows[job].get(b"group", LANES[0])
    lane, limits, counters, ring = keys.lane(branded.parse(group)), *map(keys.fixed, ("glimit", "gactive", "ring"))
    sets = {place: keys.fixed(place) for place in ("pending", "active", "schedule", "dead")} | {"lane": lane}
    out: list[Command] = [("ZREM", key, job) for key in sets.values()]
    mark: list[Command] = [("HSET", row, "lock", "1")]
    yield "nothing", []
    yield "row gone", [("DEL", row)]
    yield "row gone, in a lane", [("DEL", row), *out, ("ZADD", lane, 0, job)]
    yield "row no hash", [("DEL", row), ("SET", row, "x")]
    for text in ("many", "-1", "1e3", "", " 1", "01"):
        yield f"attempts {text!r}", [("HSET", row, "attempts", text)]
    yield "no attempts", [("HDEL", row, "attempts")]
    for text in ("garbage", "", "JOB00000000 00", "JOBzzzzzzzzzzz"):
        yield f"parent {text!r}", [("HSET", row, "parent", text)]
    for text in ("garbage", "", "TEN00000000_00", "TENzzzzzzzzzzz"):
        yield f"group {text!r}", [("HSET", row, "group", text)]
    yield "a group, whatever it was", [("HSET", row, "group", group)]
    for text in ("many", ""):
        yield f"limit {text!r}", [("HSET", limits, group, text)]
        yield f"counter {text!r}", [("HSET", counters, group, text)]
        yield f"limit of the other lane {text!r}", [("HSET", limits, target, text)]
        yield f"counter of the other lane {text!r}", [("HSET", counters, target, text)]
    if group != target:
        yield "lane no set", [("DEL", lane), ("SET", lane, "x")]
    yield "no payload", [("HDEL", row, "payload")]
    for place, key in sets.items():
        yield f"also in {place}", [("ZADD", key, 4e12, job)]
    yield "also lapsed", [("ZADD", sets["active"], 1, job)]
    yield "in no set", out
    yield "held", [*out, ("HSET", row, "state", "awaiting_children")]
    yield "lock string", [("SET", row + b":lock", "1", "PX", HOUR_MS)]
    yield "eternal lock", mark
    if has_field_ttls:
        yield "lock field", [*mark, ("HPEXPIRE", row, HOUR_MS, "FIELDS", 1, "lock")]
    for text in ("1", "0", "-1", "many"):
        yield f"waits for {text}", [("SET", row + b":dependencies", text)]
    yield "waits for a list", [("RPUSH", row + b":dependencies", "1")]
    yield "off the ring", [("DEL", ring)]
    yield "on the ring, whether it can be served or not", [("RPUSH", ring, *LANES)]
    yield "dedup key of this job", [("SET", dedup, job)]
    yield "dedup key of another job", [("SET", dedup, NOBODY)]
    yield "dedup key no string", [("DEL", dedup), ("RPUSH", dedup, job)]
    hashes = [("HSET", row + b":" + sub, "x", "y") for sub in (b"processed", b"failed", b"unsuccessful")]
    yield "all subkeys", [("RPUSH", row + b":logs", "line"), ("SET", row + b":dependencies", 0), *hashes]
    yield "queue paused", [("HSET", keys.fixed("meta"), "paused", "0")]
    yield "lane paused", [("SADD", keys.fixed("paused"), group), ("LREM", ring, 0, group)]
    yield "other lane paused", [("SADD", keys.fixed("paused"), target), ("LREM", ring, 0, target)]
    for text in ("0", "1", "2"):
        yield f"lane limited to {text}", [("HSET", limits, group, text)]
    yield "slot leaked", [("HINCRBY", counters, group, 1)]
    yield "slot not counted", [("HDEL", counters, group)]
    yield "stalled once", [("HSET", row, "stalled", "1", "last_error", "stalled")]
    yield "stalled, then failed", [("HSET", row, "stalled", "1", "last_error", "boom")]
    yield "says stalled", [("HDEL", row, "stalled"), ("HSET", row, "last_error", "stalled")]
    yield "many tokens", [("RPUSH", keys.fixed("wake"), *["1"] * 64)]


def _written(key: bytes, value: Value | None, lock_ttl_ms: int | None) -> Iterator[Command]:
    """Yield the commands that make a key as it was read."""
    yield "DEL", key
    if value is None:
        return
    if value.type == "string":
        yield "SET", key, value.content
    elif value.type == "hash":
        yield "HSET", key, *chain.from_iterable(value.content.items())
    elif value.type == "zset":
        yield "ZADD", key, *chain.from_iterable((score, member) for member, score in value.content.items())
    else:
        yield {"list": "RPUSH", "set": "SADD"}[value.type], key, *value.content
    if value.ttl_ms is not None:
        yield "PEXPIRE", key, value.ttl_ms
    if lock_ttl_ms:
        yield "HPEXPIRE", key, lock_ttl_ms, "FIELDS", 1, "lock"


def _answer(outcome: Outcome) -> Answer:
    """Return an outcome as the oracle has it; a dry run says what would be."""
    result = {would: done for done, would in WOULD.items()}.get(outcome.result, outcome.result)
    notes = () if result == "skipped" else outcome.notes
    return Answer(result, outcome.reason, outcome.place_before or "", outcome.place_after or "", frozenset(notes))


def _gone(queue: str, outcomes: Sequence[Outcome]) -> list[tuple[str, bytes]]:
    return [(queue, outcome.id) for outcome in outcomes if outcome.result == "removed"]


def _is_left(before: Look, finding: Finding, removed: Sequence[tuple[str, bytes]]) -> bool:
    """Tell whether a finding is what a change leaves by the rules.

    A dead child that its parent ignored keeps the link to a parent that is removed, as when that completes.
    What stands in a lane that is not its own is not looked for. A held parent that was told of a child it
    still counts on, or counts wrongly, contradicts itself: that it is stuck is then said of it, or not.
    """
    queue, _, subject, _ = finding
    was = {each.rule for each in before.broken if (each.queue, each.subject) == (queue, subject)}
    if finding.rule == "child_without_parent":
        return invariants.parent_of(queue, before.queues[queue].rows[subject]) in removed
    if finding.rule == "held_parent_stuck":
        linked = {child for _, child in before.links.get((queue, subject), ())}
        told = {child for sub in TELLINGS for child in before.queues[queue].told(subject, sub)}
        return bool(linked & told) or "parent_count_mismatch" in was
    is_gone = (queue, subject) in removed
    return "group_mismatch" in was and finding.rule == ("dangling" if is_gone else "state_mismatch")
