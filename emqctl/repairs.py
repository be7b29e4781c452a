"""Repairing what an audit found, where no job can be lost: one program a repair, which looks again before it writes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from emqctl.changes import SO_ALREADY, Change, Outcome, Pace, apply, flags, usual_writes
from emqctl.connection import Server
from emqctl.errors import WrongType
from emqctl.keyspace import QueueKeys
from emqctl.queues import Queue
from emqctl.records import Finding
from emqctl.replies import Command
from emqctl.scripts import program
from emqctl.selection import Target

FIXED, WOULD_FIX = "fixed", "would-fix"
FOR_A_PERSON = "for-a-person"
#: Reasons that say that the finding is none any more, by other hands or an earlier repair of the same run.
NO_MORE = (*SO_ALREADY, "missing", "not-pending", "parent-exists")

Begin = Callable[[str, Sequence[bytes]], None]


@dataclass(frozen=True)
class Repair:
    """A program, the rules whose findings it repairs, the key it is declared with, and whether it is for lanes."""

    program: str
    rules: tuple[str, ...]
    key: str
    of_lanes: bool = False

    def target(self, finding: Finding) -> Target:
        """Return what the program is told of a finding."""
        if self.of_lanes:
            return Target(finding.lane or b"")
        return Target(finding.id or b"", lane=finding.lane or b"")

    def change(self, keys: QueueKeys, *, dry_run: bool) -> Change:
        """Return the program as it is asked."""
        return Change(
            program(self.program),
            home=(),
            left=(),
            key=keys.fixed(self.key),
            flags=flags(d=dry_run),
            writes=_writes(keys),
            arguments=lambda target: target,
            dry_run=dry_run,
        )


#: In the order in which they are made: each sees what those before it left.
REPAIRS = (
    Repair("fix_members", ("dangling", "bad_member"), "pending"),
    Repair("fix_places", ("in_two_places",), "dead"),
    Repair("fix_lane", ("grouped_in_flat_pending",), "pending"),
    Repair("fix_state", ("state_mismatch",), "pending"),
    Repair("fix_lock", ("lock_field_without_ttl",), "active"),
    Repair("fix_link", ("child_without_parent",), "pending"),
    Repair("fix_gactive", ("gactive_mismatch", "gactive_at_zero", "bad_counter"), "gactive", of_lanes=True),
    Repair(
        "fix_ring",
        ("lane_starved", "lane_on_ring_not_serviceable", "lane_on_ring_twice"),
        "ring",
        of_lanes=True,
    ),
)
_BY_RULE = {rule: each for each in REPAIRS for rule in each.rules}
_BY_PROGRAM = {each.program: each for each in REPAIRS}


@dataclass(frozen=True)
class Repaired:
    """A batch of one queue as it was answered: the outcomes, and the findings with what became of them."""

    queue: str
    outcomes: Sequence[Outcome]
    findings: Sequence[Finding]


def repair_of(finding: Finding) -> Repair | None:
    """Return the repair of a finding, if it still is one; None where a person has to decide."""
    if finding.repair is None:
        return None
    if finding.rule == "state_mismatch" and " " in (finding.place or ""):
        return _BY_PROGRAM["fix_places"]  # of its copies the one stays that the state names
    return _BY_RULE.get(finding.rule)


def is_settled(finding: Finding) -> bool:
    """Tell whether a finding that was to be repaired is one no more."""
    return finding.is_fixed or finding.reason in NO_MORE


def repair(server: Server, findings: Sequence[Finding], begin: Begin, *, dry_run: bool) -> Iterator[Repaired]:
    """Repair findings, repair by repair and queue by queue; yield each batch when it is answered.

    ``begin`` is called with the queue and the ids or lanes of each batch before it is sent. What no program
    repairs is for a person. Raises NoAnswer after a batch that may or may not have been applied.
    """
    for each in REPAIRS:
        ours = [finding for finding in findings if repair_of(finding) is each]
        for name in sorted({str(finding.queue) for finding in ours}):
            of_queue = [finding for finding in ours if finding.queue == name]
            yield from _repair(Queue(server, name), each, of_queue, begin, dry_run=dry_run)
    others = [_left(finding, dry_run=dry_run) for finding in findings if repair_of(finding) is None]
    if others:
        yield Repaired("", (), others)


def _repair(
    queue: Queue, each: Repair, findings: Sequence[Finding], begin: Begin, *, dry_run: bool
) -> Iterator[Repaired]:
    rest = iter(findings)
    pages = [[each.target(finding) for finding in findings]]
    pace = Pace(begin=lambda ids: begin(queue.name, ids))
    try:
        for outcomes in apply(queue, each.change(queue.keys, dry_run=dry_run), pages, pace):
            told = [_told(next(rest), outcome, dry_run=dry_run) for outcome in outcomes]
            yield Repaired(queue.name, outcomes, told)
    except WrongType:  # of a key that every program needs: a finding of its own
        result = "would-skip" if dry_run else "skipped"
        skipped = [replace(finding, result=result, reason="wrong-type") for finding in rest]
        yield Repaired(queue.name, (), skipped)


def _told(finding: Finding, outcome: Outcome, *, dry_run: bool) -> Finding:
    result = WOULD_FIX if outcome.result == FIXED and dry_run else outcome.result
    return replace(finding, result=result, reason=outcome.reason)


def _left(finding: Finding, *, dry_run: bool) -> Finding:
    """Return a finding that nothing repairs; one that is only worth knowing wants nothing."""
    result = "would-skip" if dry_run else "skipped"
    return finding if finding.level == "note" else replace(finding, result=result, reason=FOR_A_PERSON)


def _writes(keys: QueueKeys) -> list[Command]:
    """Return commands of the kinds the programs send."""
    row = keys.row(b"JOB00000000000")
    return [
        *usual_writes(keys, keys.pending, keys.active, keys.schedule, keys.dead),
        *(("HDEL", row, "lock"), ("HSET", keys.fixed("gactive"), "x", 1)),
    ]
