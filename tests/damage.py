"""What is known of EchoMQ itself: an operator's plain verbs, and the damage its own steps do.

``Damage`` says of a step, from what stood before it, exactly which findings it may add, and by which hazard
of the protocol. Steps of emqctl may add none.
"""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple

from invariants import Look, QueueView, parent_of

from emqctl import branded
from emqctl.demo import transitions
from emqctl.demo.flows import Text
from emqctl.demo.worker import Transitions
from emqctl.keyspace import encode
from emqctl.scripts import lua

_LANE_PAUSE = """
call('SADD', paused, ARGV[1])
leave_ring(ARGV[1])
return 1
"""
_LANE_RESUME = """
call('SREM', paused, ARGV[1])
ring_if(ARGV[1])
return 1
"""
_LANE_LIMIT = """
call('HSET', glimit, ARGV[1], ARGV[2])
if has_room(ARGV[1]) then ring_if(ARGV[1]) else leave_ring(ARGV[1]) end
return 1
"""
_LANE_WEIGHT = "return call('HSET', gweight, ARGV[1], ARGV[2]) >= 0 and 1"


class Operator(Transitions):
    """Also what EchoMQ's own operator verbs do to pauses, limits and weights."""

    def queue_pause(self) -> str:
        """Stop claims: `ok`."""
        self.client.hset(self.keys.fixed("meta"), "paused", 1)
        return "ok"

    def queue_resume(self) -> str:
        """Let claims go on: `ok`."""
        self.client.hdel(self.keys.fixed("meta"), "paused")
        return "ok"

    def lane_pause(self, group: Text) -> str:
        """Take a lane out of service: `ok`."""
        return self._verb(_LANE_PAUSE, group)

    def lane_resume(self, group: Text) -> str:
        """Put a lane into service, also one that is starved: `ok`."""
        return self._verb(_LANE_RESUME, group)

    def lane_limit(self, group: Text, limit: int) -> str:
        """Set the most jobs of a lane in flight: `ok`."""
        return self._verb(_LANE_LIMIT, group, limit)

    def lane_weight(self, group: Text, weight: int) -> str:
        """Set the jobs a lane is served per turn: `ok`."""
        return self._verb(_LANE_WEIGHT, group, weight)

    def _verb(self, body: str, group: Text, *args: int) -> str:
        prelude = files(transitions).joinpath("prelude.lua").read_text("utf-8")
        script = self.client.register_script(lua("keys") + prelude + body)
        assert script(keys=[self.keys.prefix], args=[bytes(branded.parse(group)), *args]) == 1
        return "ok"


class Held(NamedTuple):
    """A job in a worker's hands: all it knows until it settles, whatever became of the job meanwhile."""

    queue: str
    id: bytes
    token: int


class Damage(dict[tuple[str, str, bytes], str]):
    """(queue, rule, subject) of a finding that a step of EchoMQ may add -> the hazard that says so."""

    def __init__(self, look: Look, queue: str) -> None:
        super().__init__()
        self._look, self._queue = look, queue
        self._view = look.queues.get(queue, QueueView(queue))

    def may(self, hazard: str, subject: bytes, *rules: str, queue: str | None = None) -> None:
        """Allow findings."""
        for rule in rules:
            self.setdefault((queue or self._queue, rule, subject), hazard)

    def accepts(self, job: Held) -> bool:
        """Tell whether a worker's token is good for anything."""
        return self._view.rows.get(job.id, {}).get(b"attempts") == str(job.token).encode()

    def complete(self, job: Held) -> Damage:
        """A late worker's job is done wherever it is: members stay behind, and no parent hears of it."""
        if not self.accepts(job):
            return self
        row, in_flight = self._view.rows[job.id], "active" in self._view.places.get(job.id, ())
        left = self._left_by_settling(job.id)
        if left:
            self.may(self._hazard_of(job.id, left), job.id, "dangling")
        self.may("H26", job.id, "orphan_subkeys")
        self._orphan_children(job.id, "H26")
        if b"parent" in row:
            queue, parent = parent_of(self._queue, row)
            if not in_flight:
                self.may("H15", parent, "parent_count_mismatch", "held_parent_stuck", queue=queue)
            elif queue == self._queue:
                self._counted_down(parent, job.id)
        return self

    def retry(self, job: Held, max_attempts: int) -> Damage:
        """A late worker's job is put into the schedule or among the dead beside where it is."""
        if not self.accepts(job):
            return self
        dies = job.token >= max_attempts
        left = self._left_by_settling(job.id) - {"dead" if dies else "schedule"}
        if left:
            self.may(self._hazard_of(job.id, left), job.id, "in_two_places", "state_mismatch")
        row = self._view.rows[job.id]
        if dies and b"parent" in row:
            queue, parent = parent_of(self._queue, row)
            if queue == self._queue:
                self._told_of_death(parent, job.id, row.get(b"parent_policy"))
        return self

    def extend(self, job: Held) -> Damage:
        """A beat puts a job that is not in flight among those that are."""
        places = self._view.places.get(job.id, [])
        if self.accepts(job) and places and "active" not in places:
            self.may("H12", job.id, "in_two_places", "state_mismatch")
            if b"group" in self._view.rows[job.id]:
                self.may("H12", self._view.rows[job.id][b"group"], "gactive_mismatch")
        return self

    def track(self, job: Held) -> Damage:
        """A mark on a job that is gone makes a row of nothing else."""
        if job.id not in self._view.rows:
            self.may("6.2", job.id, "ghost_row", "row_in_no_set", "state_mismatch")
        return self

    def untrack(self, job: Held) -> Damage:
        """Such a row goes with its mark."""
        if self._view.rows.get(job.id, {}).keys() == {b"lock"}:
            self.may("6.2", job.id, "dangling", "orphan_subkeys")
            self._orphan_children(job.id, "6.2")
        return self

    def claim(self, most: int = 1) -> Damage:
        """A member without a row is started all the same; one that has a group is not counted."""
        for member in sorted(self._view.sets.get("pending", {}))[:most]:
            self._started(member)
            if b"group" in self._view.rows.get(member, {}):
                self.may("H27", self._view.rows[member][b"group"], "gactive_mismatch")
        return self

    def lane_claim(self) -> Damage:
        """A member without a row is started and counted; its ghost has no group to give the slot back to."""
        for group in self._view.ring[:1]:
            for member in self._view.lanes.get(group, ()):
                if self._started(member):
                    self.may("H2", group, "gactive_mismatch")
        return self

    def promote(self) -> Damage:
        """A scheduled member without a row becomes a ghost that waits."""
        self._resurrected("schedule")
        return self

    def reap(self) -> Damage:
        """A lapsed member without a row becomes a ghost that waits."""
        self._resurrected("active")
        return self

    def sweep(self, max_stalled: int) -> Damage:
        """A job that lapsed too often dies: its parent is not told and its lane not rung."""
        for member in self._resurrected("active", "H31"):
            row = self._view.rows.get(member, {})
            if int(row.get(b"stalled", b"0")) + 1 < max_stalled:
                continue
            if b"group" in row:
                self.may("H16", row[b"group"], "lane_starved")
            if b"parent" in row:
                queue, parent = parent_of(self._queue, row)
                self.may("H14", parent, "held_parent_stuck", queue=queue)
        return self

    def deliver(self) -> Damage:
        """Tell parents in this and other queues of the children of this one."""
        for (queue, parent), entries in self._look.posted.items():
            there = Damage(self._look, queue)
            for entry in entries:
                if entry.queue != self._queue:
                    continue
                if entry.policy is None:
                    there._counted_down(parent, entry.child)
                else:
                    there._told_of_death(parent, entry.child, entry.policy)
                if parent not in there._view.rows:
                    there.may("H5", parent, "orphan_subkeys")
            self.update(there)
        return self

    def _left_by_settling(self, member: bytes) -> set[str]:
        """Return the places a settled job is not taken out of."""
        places, group = set(self._view.places.get(member, ())), self._view.rows[member].get(b"group")
        if "active" in places:
            return places - {"active"}
        return places - {f"lane:{group.decode()}" if group else "pending"}

    def _hazard_of(self, member: bytes, left: set[str]) -> str:
        if "dead" in left:
            return "H9"
        if "schedule" in left:
            return "H30"
        return "H29" if "pending" in left and b"group" in self._view.rows[member] else "H12"

    def _started(self, member: bytes) -> bool:
        is_ghost = member not in self._view.rows
        if is_ghost:
            self.may("H2", member, "ghost_row")
        return is_ghost

    def _resurrected(self, place: str, hazard: str = "H11") -> list[bytes]:
        """Return the members of a timed set whose time has come; of those without a row a ghost may be made."""
        due = [member for member, at in self._view.sets.get(place, {}).items() if at <= self._look.now_ms + _SLACK_MS]
        for member in due:
            if member not in self._view.rows:
                self.may(hazard, member, "ghost_row")
        return due

    def _told_of_death(self, parent: bytes, child: bytes, policy: bytes | None) -> None:
        if policy == b"id":
            self._counted_down(parent, child)
        else:
            self._killed(parent, child)

    def _counted_down(self, parent: bytes, child: bytes) -> None:
        """A parent waits for one child less; the last one lets it wait, whatever it is doing."""
        view = self._view
        if any(child in view.told(parent, sub) for sub in ("processed", "failed", "unsuccessful")):
            self.may("H7", parent, "parent_count_mismatch", "held_parent_ready")
        if parent not in view.rows:
            self.may("H5", parent, "orphan_subkeys")
        if (view.count(parent) or 0) > 1:
            return
        if b"payload" not in view.rows.get(parent, {}):
            self.may("H5", parent, "ghost_row")
        if set(view.places.get(parent, ())) - {"pending"}:
            self.may("H6", parent, "in_two_places", "state_mismatch", "grouped_in_flat_pending")

    def _killed(self, parent: bytes, child: bytes) -> None:
        """A parent dies of its child, whatever it is doing."""
        view = self._view
        if parent not in view.rows:
            self.may("H5", parent, "ghost_row")
        if set(view.places.get(parent, ())) - {"pending", "dead"}:
            self.may("H32", parent, "in_two_places", "state_mismatch")
        was_told = child in view.told(parent, "unsuccessful")
        if was_told or not (view.is_held(parent) or view.is_dead_by_children(parent)):
            self.may("H8", parent, "parent_count_mismatch")

    def _orphan_children(self, parent: bytes, hazard: str) -> None:
        for queue, child in self._look.links.get((self._queue, parent), ()):
            self.may(hazard, child, "child_without_parent", queue=queue)


_SLACK_MS = 5000  # leases and delays of the machine are over at once or in an hour


def outbox_entry(queue: str, parent: bytes, child: bytes) -> bytes:
    """Return the settlement of a child that is done."""
    return b"\0".join((encode(queue), parent, child, b"done"))
