"""EchoMQ's producers and workers in small: every transition of a queue, answered in the words of its own client.

Each is one Lua program of ``emqctl.demo.transitions``, as faithful to EchoMQ's faults as to its rules.
What the real host does around a script (looking for a pause, reading a parent's link) is done here.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from emqctl import branded
from emqctl.demo.flows import Node, Settlement, Text, fail_entry, parse_entry
from emqctl.demo.transitions import source
from emqctl.errors import Malformed, Refused
from emqctl.keyspace import QueueKeys, decode, encode

_WORDS = {"EMQKIND": "kind", "EMQSTALE": "stale"}


class Rejected(Refused):
    """A transition that was refused; ``word`` is what EchoMQ's client calls it, ``wire`` the script's error."""

    def __init__(self, word: str, wire: str = "") -> None:
        super().__init__(wire or word)
        self.word, self.wire = word, wire


class Claimed(NamedTuple):
    """A job a worker has started. A payload of None is a ghost's; a group of None a flat claim's."""

    id: bytes
    payload: bytes | None
    token: int
    group: bytes | None = None


class _Link(NamedTuple):
    """What a row says of its parent; empty for none, a queue is empty for the same."""

    parent: bytes
    queue: bytes
    policy: bytes


def host_ms() -> int:
    """Return this machine's clock in ms since 1970; repeats and `enqueue_at` go by it."""
    return time.time_ns() // 1_000_000


class Transitions:
    """Everything EchoMQ's producers and workers do to one queue; each method is one verb.

    ``client`` is a redis-py client that answers bytes. A refusal raises Rejected, an id that is no
    branded id raises Malformed before anything is sent. Times are ms.
    """

    def __init__(self, client: Any, queue: str) -> None:
        self.keys = QueueKeys(queue)
        self.client = client
        self._scripts: dict[str, Any] = {}

    def enqueue(self, job_id: Text, payload: Text) -> str:
        """Let a new job wait: `enqueued`, or `duplicate`."""
        return "enqueued" if self._run("enqueue", _id(job_id), payload) else "duplicate"

    def enqueue_at(self, job_id: Text, payload: Text, run_at_ms: int) -> str:
        """Keep a new job until a time since 1970: `scheduled`, or `duplicate`."""
        return "scheduled" if self._run("schedule", _id(job_id), payload, "at", run_at_ms) else "duplicate"

    def enqueue_in(self, job_id: Text, payload: Text, delay_ms: int) -> str:
        """Keep a new job for a while: `scheduled`, or `duplicate`."""
        return "scheduled" if self._run("schedule", _id(job_id), payload, "in", delay_ms) else "duplicate"

    def lane_enqueue(self, group: Text, job_id: Text, payload: Text) -> str:
        """Let a new job wait in a lane: `enqueued`, or `duplicate`."""
        return "enqueued" if self._run("lane_enqueue", _id(job_id), payload, _id(group)) else "duplicate"

    def claim(self, lease_ms: int) -> Claimed | None:
        """Start the oldest job of flat pending."""
        return _claimed(self._claim("claim", lease_ms))

    def claim_batch(self, size: int, lease_ms: int) -> list[Claimed]:
        """Start the oldest jobs of flat pending."""
        return [Claimed(*job) for job in self._claim("claim_batch", size, lease_ms)]

    def lane_claim(self, lease_ms: int) -> Claimed | None:
        """Start one job of the lane whose turn it is."""
        return _claimed(self._claim("lane_claim", lease_ms))

    def lane_wclaim(self, lease_ms: int) -> list[Claimed]:
        """Start as many jobs of the lane whose turn it is as its weight says."""
        return [Claimed(*job) for job in self._claim("lane_wclaim", lease_ms)]

    def lane_bclaim(self, lease_ms: int) -> list[Claimed]:
        """Start all jobs of the lane whose turn it is."""
        return [Claimed(*job) for job in self._claim("lane_bclaim", lease_ms)]

    def complete(self, job_id: Text, token: int, result: Text | None = None) -> str:
        """Finish a job: `ok`. A flow's parent is given the result, or the job's own id."""
        link = self._link(_id(job_id))
        told = job_id if result is None else result
        return self._ok("complete", _id(job_id), token, told, link.parent, link.queue)

    def retry(self, job_id: Text, token: int, delay_ms: int, max_attempts: int, error: Text) -> str:
        """Settle a failed attempt: `scheduled`, or `dead` when it was the last."""
        link = self._link(_id(job_id))
        verdict = decode(self._run("retry", _id(job_id), token, delay_ms, max_attempts, error, *link))
        if verdict == "dead" and link.parent and not link.queue:
            self._pass_on(link.parent, link.policy, encode(error) if isinstance(error, str) else error)
        return verdict

    def delay(self, job_id: Text, token: int, delay_ms: int) -> str:
        """Put a job in flight off: `ok`."""
        try:
            return self._ok("delay", _id(job_id), token, delay_ms)
        except Rejected as refused:
            if refused.wire == "EMQSTALE job gone":
                raise Rejected("gone", refused.wire) from refused
            raise

    def extend_lock(self, job_id: Text, token: int, lease_ms: int) -> str:
        """Move the deadline of a lease: `ok`."""
        return self._ok("extend_lock", _id(job_id), token, lease_ms)

    def extend_locks(self, held: Sequence[tuple[Text, int]], lease_ms: int) -> list[bytes]:
        """Move the deadlines of the leases of (id, token); return the ids of those that are lost."""
        pairs = (value for job_id, token in held for value in (_id(job_id), token))
        lost: list[bytes] = self._run("extend_locks", lease_ms, *pairs)
        return lost

    def track_lock(self, job_id: Text, token: int, ttl_ms: int) -> str:
        """Mark a job as held, beside it and on its row: `ok`. Old servers keep the mark on the row for ever (H22)."""
        from redis.exceptions import ResponseError

        job = branded.parse(job_id)
        self.client.set(self.keys.job(job, "lock"), token, px=ttl_ms)
        self.client.hset(self.keys.job(job), "lock", token)
        try:
            self.client.hpexpire(self.keys.job(job), ttl_ms, "lock")
        except ResponseError as error:
            if not str(error).startswith("unknown command"):
                raise
        return "ok"

    def untrack_lock(self, job_id: Text) -> str:
        """Take both marks away: `ok`."""
        job = branded.parse(job_id)
        self.client.delete(self.keys.job(job, "lock"))
        self.client.hdel(self.keys.job(job), "lock")
        return "ok"

    def add_log(self, job_id: Text, line: Text, keep: int = 0) -> int:
        """Add a line to a job's log, of which the last ``keep`` stay (0: all); return their number."""
        return self._found("add_log", _id(job_id), line, keep)

    def update_progress(self, job_id: Text, progress: Text) -> str:
        """Note how far a job is: `ok`."""
        return self._ok("update_progress", _id(job_id), progress)

    def promote(self, batch: int = 100) -> int:
        """Let scheduled jobs wait whose time has come; return how many."""
        return int(self._run("promote", batch))

    def reap(self) -> int:
        """Let at most 100 lapsed jobs wait again; return how many."""
        return int(self._run("reap"))

    def reap_group(self, group: Text, limit: int = 100) -> int:
        """Let lapsed jobs of one lane wait again, looking at ``limit`` lapsed jobs; return how many."""
        return int(self._run("reap_group", _id(group), limit))

    def sweep_stalled(self, max_stalled: int = 1, limit: int = 100) -> dict[str, list[bytes]]:
        """Let lapsed jobs wait again, or die at their ``max_stalled``-th lapse; return `recovered` and `dead`."""
        recovered, died = self._run("sweep_stalled", max_stalled, limit)
        return {"recovered": recovered, "dead": died}

    def repeat_register(self, name: Text, every_ms: int, template: Text, first_in_ms: int) -> str:
        """Register a repeat by this machine's clock: `registered`, or `exists`."""
        taken = self._run("repeat_register", name, every_ms, template, host_ms() + first_in_ms) == 0
        return "exists" if taken else "registered"

    def repeat_cancel(self, name: Text) -> str:
        """Cancel a repeat: `cancelled`, or `absent`."""
        return "cancelled" if self._run("repeat_cancel", name) else "absent"

    def repeat_advance(self, name: Text, every_ms: int) -> str:
        """Set the next run an interval from now: `advanced`, or `absent`."""
        return "advanced" if self._run("repeat_advance", name, host_ms() + every_ms) else "absent"

    def repeat_fire(self, name: bytes, job_id: Text) -> str:
        """Enqueue an occurrence under a fresh id, then advance: two steps, as in EchoMQ's pump."""
        template, every_ms = self.client.hmget(self.keys.repeat(name), "template", "every_ms")
        if template is not None:
            self.enqueue(job_id, template)
        return self.repeat_advance(name, int(every_ms or 0))

    def repeat_tick(self, ids: Iterator[bytes]) -> int:
        """Fire the repeats whose time has come; return how many."""
        due = self.client.zrangebyscore(self.keys.fixed("repeat"), "-inf", host_ms())
        for name in due:
            self.repeat_fire(name, next(ids))
        return len(due)

    def flow_add(self, root: Node) -> list[object]:
        """Add a flow; return its ids. One step where all children are leaves of this queue, else parents first.

        A deep flow that is refused half-way stays as it is, its root held.
        """
        flaw = root.flaw()
        if flaw:
            raise Rejected(flaw)
        if any(child.children or child.queue not in {None, self.keys.queue} for child in root.children):
            self._add_node(root, b"", b"")
            return root.names()
        leaves = (value for child in root.children for value in (_id(child.id), child.payload))
        self._run("flow_add", _id(root.id), root.payload, *leaves)
        for child in root.children:
            self._set_policy(child)
        return root.names()

    def pump_deliver(self, batch: int = 100) -> int:
        """Deliver this queue's outbox to parents elsewhere, up to an entry that cannot be read; return how many."""
        outbox = self.keys.fixed("flow:outbox")
        delivered = 0
        with suppress(Malformed):
            for entry in self.client.lrange(outbox, 0, batch - 1):
                self._deliver(parse_entry(entry))
                delivered += 1
        if delivered:
            self.client.ltrim(outbox, delivered, -1)
        return delivered

    def _add_node(self, node: Node, parent: bytes, parent_queue: bytes) -> None:
        self._run("flow_node", _id(node.id), node.payload, len(node.children), parent, parent_queue)
        if parent:
            self._set_policy(node)
        for child in node.children:
            there = self._in(child.queue or self.keys.queue)
            link = b"" if there.keys.queue == self.keys.queue else encode(self.keys.queue)
            there._add_node(child, _id(node.id), link)  # noqa: SLF001 - its own kind

    def _set_policy(self, child: Node) -> None:
        """A step of its own: a child that is claimed at once has no policy yet."""
        policy = "id" if child.ignore_failure else "fp"
        self.client.hset(self.keys.job(branded.parse(child.id)), "parent_policy", policy)

    def _deliver(self, settlement: Settlement) -> None:
        queue = self._in(decode(settlement.parent_queue))
        parent, child = _id(settlement.parent), _id(settlement.child)
        if settlement.policy is None:
            queue._run("flow_deliver", parent, child, settlement.told)  # noqa: SLF001 - its own kind
        else:
            queue._run("flow_fail_deliver", parent, child, settlement.policy, settlement.told)  # noqa: SLF001
            queue._pass_on(parent, settlement.policy, settlement.told)  # noqa: SLF001

    def _pass_on(self, node: bytes, policy: bytes, error: bytes) -> None:
        """Post the death of a node that its child has killed to its own parent: a second step, which a crash loses."""
        link = self._link(node) if policy != b"id" else None
        if link and link.parent:
            entry = fail_entry(link.queue or encode(self.keys.queue), link.parent, node, link.policy, error)
            self.client.rpush(self.keys.fixed("flow:outbox"), entry)

    def _link(self, job_id: bytes) -> _Link:
        """Read a row's parent, as a worker does before it settles. A parent that is no id is the worker's end (H33)."""
        row = self.keys.row(job_id)
        parent, queue, policy = self.client.hmget(row, "parent", "parent_queue", "parent_policy")
        return _Link(_id(parent) if parent else b"", queue or b"", b"id" if policy == b"id" else b"fp")

    def _in(self, queue: str) -> Transitions:
        return Transitions(self.client, queue)

    def _claim(self, verb: str, *args: int) -> list[Any]:
        """Claim unless the queue is paused, which no script asks: a claim may land just after a pause (H18)."""
        reply: list[Any] = [] if self.client.hexists(self.keys.fixed("meta"), "paused") else self._run(verb, *args)
        return reply

    def _ok(self, verb: str, *args: Text | int) -> str:
        self._found(verb, *args)
        return "ok"

    def _found(self, verb: str, *args: Text | int) -> int:
        reply = int(self._run(verb, *args))
        if reply < 1:
            raise Rejected("gone")
        return reply

    def _run(self, verb: str, *args: Text | int) -> Any:
        from redis.exceptions import ResponseError

        if verb not in self._scripts:
            self._scripts[verb] = self.client.register_script(source(verb))
        try:
            return self._scripts[verb](keys=[self.keys.prefix], args=args)
        except ResponseError as error:
            word = _WORDS.get(str(error).partition(" ")[0])
            if word is None:
                raise
            raise Rejected(word, str(error)) from error


def _claimed(reply: list[Any]) -> Claimed | None:
    return Claimed(*reply) if reply else None


def _id(text: Text) -> bytes:
    return bytes(branded.parse(text))
