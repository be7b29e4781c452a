"""What does not fit together about a job, in words; pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from emqctl import branded
from emqctl.errors import EmqError
from emqctl.keyspace import decode
from emqctl.numbers import count, integer

STATE_OF = {"pending": "pending", "lane": "pending", "active": "active", "schedule": "scheduled", "dead": "dead"}
HELD = b"awaiting_children"


@dataclass(frozen=True)
class Parent:
    """The other end of a flow child's link: its ``state`` is None where it has no row."""

    state: bytes | None
    outstanding: bytes | None
    told: tuple[str, ...] = ()


@dataclass(frozen=True)
class Facts:
    """What was read of a job. ``row`` is empty where there is none; ``places`` are words, in no order of worth."""

    row: Mapping[bytes, bytes]
    row_error: EmqError | None = None
    places: Sequence[str] = ()
    queue_paused: bool = False
    lane_paused: bool = False
    lane_limit: bytes | None = None
    lane_active: bytes | None = None
    lane_on_ring: bool = False
    lock: bytes | None = None
    lock_field_ttl_ms: int | None = None
    outstanding: bytes | None = None
    parent: Parent | None = None
    outcomes: Mapping[str, Mapping[bytes, bytes]] = field(default_factory=dict)

    @property
    def group(self) -> bytes | None:
        """The lane its row names."""
        return self.row.get(b"group")

    @property
    def is_held(self) -> bool:
        """Whether it waits for its children, in no place."""
        return self.row.get(b"state") == HELD and not self.places

    @property
    def is_at_limit(self) -> bool:
        """Whether its lane has as many jobs in flight as it may."""
        limit, flying = integer(self.lane_limit), integer(self.lane_active or b"0")
        return limit is not None and flying is not None and flying >= limit


def unserved(facts: Facts) -> str | None:
    """Say why a waiting job will not be served as things stand, or None."""
    if facts.is_held:
        return f"it is held until {decode(facts.outstanding or b'?')} more children are done"
    if not {"pending", "lane"} & set(facts.places):
        return None
    if facts.queue_paused:
        return "the queue is paused"
    if "lane" not in facts.places:
        return None if facts.group is None else "it has a lane, and waits in flat pending"
    if facts.lane_paused:
        return "its lane is paused"
    if facts.is_at_limit:
        flying, limit = decode(facts.lane_active or b"0"), decode(facts.lane_limit or b"")
        return f"its lane is at its limit: {flying} of {limit} in flight"
    return None if facts.lane_on_ring else "its lane is not on the ring"


def contradictions(facts: Facts) -> Iterator[str]:
    """Yield each thing that does not fit, as a sentence for the operator."""
    if facts.row_error is not None:
        yield f"its row is no job: {facts.row_error}"
        return
    if not facts.row:
        yield f"it has no row, and still stands in {' and '.join(facts.places)}"
        return
    yield from _of_row(facts.row)
    yield from _of_place(facts)
    yield from _of_lane(facts)
    yield from _of_flow(facts)


def _of_row(row: Mapping[bytes, bytes]) -> Iterator[str]:
    if b"payload" not in row:
        yield "its row has no payload: a worker would be handed nothing"
    attempts = row.get(b"attempts")
    if attempts is not None and count(attempts) is None:
        yield f"its attempts are no number: {decode(attempts)!r}; a claim takes the id and then fails"
    parent = row.get(b"parent")
    if parent is not None and not branded.is_branded(parent):
        yield f"its parent is no id: {decode(parent)!r}; the worker that settles it dies"


def _of_place(facts: Facts) -> Iterator[str]:
    state, places = decode(facts.row.get(b"state", b"")), list(facts.places)
    if len(places) > 1:
        yield f"it stands in {' and '.join(places)}: it may run twice"
    elif not places and not facts.is_held:
        yield f"its row says {state!r}, and it stands nowhere: nobody will serve it"
    elif places and state != STATE_OF[places[0]]:
        yield f"its row says {state!r}, and it stands in {places[0]}"
    has_field = b"lock" in facts.row
    if has_field and facts.lock is None and (facts.lock_field_ttl_ms or 0) <= 0:
        yield "its lock field never expires, and no worker's marker stands beside it"


def _of_lane(facts: Facts) -> Iterator[str]:
    if facts.group is None:
        return
    if not branded.is_branded(facts.group):
        yield f"its lane is no id: {decode(facts.group)!r}"
    elif "pending" in facts.places:
        yield f"it belongs to lane {decode(facts.group)}, and waits in flat pending, where no lane worker looks"
    elif "lane" in facts.places and not (facts.lane_paused or facts.is_at_limit or facts.lane_on_ring):
        yield "its lane could be served, and is not on the ring: it waits for ever"
    for name, value in (("limit", facts.lane_limit), ("count of jobs in flight", facts.lane_active)):
        if value is not None and integer(value) is None:
            yield f"the {name} of its lane is no number: {decode(value)!r}"


def _of_flow(facts: Facts) -> Iterator[str]:
    if facts.is_held and (integer(facts.outstanding or b"") or 0) < 1:
        yield "it is held, and waits for no child: it was never released"
    if facts.is_held and facts.outcomes.get("failed"):
        yield "it is held, and a child it could not do without has died"
    parent = facts.parent
    if parent is None:
        return
    if parent.state is None:
        yield "its parent has no row: when it is done, a job without payload appears"
    elif len(parent.told) > 1:
        yield f"its parent has it in {' and '.join(parent.told)}"
    elif "dead" in facts.places and not parent.told and parent.state == HELD:
        yield "it is dead, and its parent was not told: the parent waits for it"
