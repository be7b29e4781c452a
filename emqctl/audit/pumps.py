"""Repeats that fired twice for one run: what two pumps on one queue leave behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from emqctl.audit.jobs import number
from emqctl.audit.rules import NOTE, Family, Found
from emqctl.branded import smallest_at
from emqctl.errors import EmqError, Malformed
from emqctl.keyspace import decode
from emqctl.queues import Queue
from emqctl.records import Finding
from emqctl.replies import Command, permitted

FAMILY = Family()
MOST_REPEATS = 1000  # registrations of a queue that are looked at
WINDOW_MS = 2000  # two pumps see the same run due within a tick, which is a second
MOST_JOBS = 100  # waiting jobs of that window that are compared
LONGEST = 4096  # bytes of a template that is compared


@dataclass(frozen=True)
class Fired:
    """How many waiting jobs are an occurrence of a repeat's last run, and how many repeats have its template."""

    queue: str
    name: bytes
    jobs: int
    alike: int

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "place": f"repeat:{decode(self.name)}"}


@FAMILY.rule(
    NOTE, "H23", "{jobs} jobs wait for one run of it: two pumps serve this queue, or one died between two steps"
)
def repeat_fired_twice(fired: Fired) -> Found:
    """More occurrences of a run than there are repeats of that payload."""
    return {"jobs": fired.jobs} if fired.jobs > fired.alike else None


def look(queue: Queue, repeats: Sequence[tuple[bytes, float]]) -> Iterator[Finding]:
    """Yield what is said of some repeats and the times they fire next."""
    keys = queue.keys
    asked: list[Command] = []
    for name, _ in repeats:
        asked += [("HGET", keys.repeat(name), "every_ms"), ("HSTRLEN", keys.repeat(name), "template")]
    replies = permitted(queue.server.try_ask(*asked)) if asked else []
    read = zip(repeats, replies[::2], replies[1::2], strict=True)
    short = [
        (name, int(score) - every)
        for (name, score), raw, size in read
        if isinstance(size, int) and size <= LONGEST and isinstance(raw, bytes) and (every := number(raw)) is not None
    ]
    templates = (
        permitted(queue.server.try_ask(*(("HGET", keys.repeat(name), "template") for name, _ in short)))
        if short
        else []
    )
    alike = Counter(template for template in templates if isinstance(template, bytes))
    for (name, fired_ms), template in zip(short, templates, strict=True):
        if isinstance(template, bytes):
            yield from FAMILY.judge(Fired(queue.name, name, _occurrences(queue, fired_ms, template), alike[template]))


def _occurrences(queue: Queue, fired_ms: int, template: bytes) -> int:
    """Return how many waiting jobs minted just before that moment have this payload."""
    try:
        low, high = bytes(smallest_at(fired_ms - WINDOW_MS)), bytes(smallest_at(fired_ms + WINDOW_MS))
    except Malformed:
        return 0
    keys = queue.keys
    window = ("ZRANGE", keys.pending, b"[" + low, b"(" + high, "BYLEX", "LIMIT", 0, MOST_JOBS)
    [jobs] = permitted(queue.server.try_ask(window))
    if isinstance(jobs, EmqError) or not jobs:
        return 0
    sizes = permitted(queue.server.try_ask(*(("HSTRLEN", keys.row(job), "payload") for job in jobs)))
    like = [job for job, size in zip(jobs, sizes, strict=True) if size == len(template)]
    payloads = permitted(queue.server.try_ask(*(("HGET", keys.row(job), "payload") for job in like))) if like else []
    return sum(payload == template for payload in payloads)
