"""What should have happened by now: leases that ended, runs that are due, repeats that were to fire."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any

from emqctl.audit.rules import NOTE, STUCK, Family, Found
from emqctl.times import brief_ms

FAMILY = Family()
SLACK_MS = 60_000  # what is late by more is served by nobody


@dataclass(frozen=True)
class Moment:
    """A member of a set scored by time: `active`, `schedule` or `repeat`; ``late_ms`` is negative before its time."""

    queue: str
    set: str
    member: bytes
    lane: bytes | None
    late_ms: float

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        is_job = self.set != "repeat"
        place = self.set if is_job else f"repeat:{self.member.decode('utf-8', 'surrogateescape')}"
        return {"queue": self.queue, "id": self.member if is_job else None, "lane": self.lane, "place": place}

    def late(self, set_: str) -> Found:
        """Return how late a member of that set is; None for others, and before the time."""
        if self.set != set_ or self.late_ms < 0:
            return None
        length = brief_ms(int(self.late_ms)) if isfinite(self.late_ms) else "ever"
        return {"late": length, "level": STUCK if self.late_ms > SLACK_MS else NOTE}


@FAMILY.rule(STUCK, None, "its lease ended {late} ago and nobody has taken it back", "emqctl reap {queue}")
def active_expired(moment: Moment) -> Found:
    """A job in flight whose lease has ended."""
    return moment.late("active")


@FAMILY.rule(STUCK, None, "it has been due for {late} and nobody has let it wait", "emqctl promote {queue} --due")
def schedule_overdue(moment: Moment) -> Found:
    """A scheduled job whose time has come."""
    return moment.late("schedule")


@FAMILY.rule(STUCK, None, "it was to fire {late} ago: no pump serves this queue, or its host's clock is behind")
def repeat_overdue(moment: Moment) -> Found:
    """A repeat registration whose time has come."""
    return moment.late("repeat")
