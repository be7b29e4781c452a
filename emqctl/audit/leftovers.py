"""What stays behind: keys that belong to nothing any more, and repeats of which half is missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from emqctl.audit.rules import BROKEN, NOTE, YES, Family, Found
from emqctl.errors import EmqError
from emqctl.keyspace import JOB_SUBS, QueueKeys, decode
from emqctl.queues import Queue
from emqctl.records import Finding
from emqctl.replies import Command, permitted

SUBKEYS, DEDUPS, REPEATS, STRANGE = Family(), Family(), Family(), Family()
SUBS = tuple(JOB_SUBS)
LONGEST_ID = 64  # bytes read of what a dedup key names


@dataclass(frozen=True)
class Subkeys:
    """The keys below a row, ``subs`` by their words."""

    queue: str
    id: bytes
    has_row: bool
    subs: tuple[str, ...]

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "id": self.id, "place": " ".join(self.subs)}


@dataclass(frozen=True)
class Dedup:
    """A deduplication key and the job it names."""

    queue: str
    suffix: bytes
    job: bytes
    has_row: bool

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "id": self.job, "place": decode(self.suffix)}


@dataclass(frozen=True)
class Repeat:
    """A repeat registration: whether it is in the set, and whether it has its record."""

    queue: str
    name: bytes
    is_member: bool
    has_record: bool

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "place": f"repeat:{decode(self.name)}", "name": self.name}


@dataclass(frozen=True)
class Strange:
    """A key of a queue whose suffix stands in no register."""

    queue: str
    suffix: bytes

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {"queue": self.queue, "place": decode(self.suffix)}


@SUBKEYS.rule(
    NOTE,
    "H26",
    "keys of a job that is gone: completion takes the row alone, and nothing ever deletes these",
    "redis-cli UNLINK {keys}",
)
def orphan_subkeys(left: Subkeys) -> Found:
    """Keys below a row that does not exist."""
    if left.has_row or not left.subs:
        return None
    return {"repair": f"redis-cli UNLINK {' '.join(f'{{{sub}}}' for sub in left.subs)}", **_keys_of(left)}


def _keys_of(left: Subkeys) -> dict[str, bytes]:
    keys = QueueKeys(left.queue)
    return {sub: keys.row(left.id, sub) for sub in left.subs}


@DEDUPS.rule(
    NOTE,
    "H25",
    "it names a job that is gone: a producer that asks it takes a new job for a duplicate until it expires",
    "redis-cli DEL {key}",
)
def dedup_dangling(dedup: Dedup) -> Found:
    """A deduplication key that names a job without a row."""
    return None if dedup.has_row else {"key": QueueKeys(dedup.queue).prefix + dedup.suffix}


@REPEATS.rule(
    BROKEN,
    None,
    "it is registered and has no record: it never fires, and the pump takes it out when it is due",
    "redis-cli ZREM {key} {name}",
)
def repeat_without_record(repeat: Repeat) -> Found:
    """A registration without its record."""
    return {"key": QueueKeys(repeat.queue).fixed("repeat")} if repeat.is_member and not repeat.has_record else None


@REPEATS.rule(
    BROKEN,
    "H20",
    "a repeat's record that is not registered: it never fires, and it blocks its name for a new registration",
)
def repeat_record_without_member(repeat: Repeat) -> Found:
    """A record that no registration names."""
    return YES if repeat.has_record and not repeat.is_member else None


@STRANGE.rule(NOTE, None, "a key of this queue that EchoMQ 2.4 to 3.0 does not know: of a newer one, or not EchoMQ's")
def unknown_suffix(_strange: Strange) -> Found:
    """A suffix that is in no register."""
    return YES


def subkeys(queue: Queue, found: Sequence[tuple[bytes, str]]) -> Iterator[Finding]:
    """Yield what is said of subkeys met, by (id, word); each job's are told of with the first there is of them."""
    keys = queue.keys
    rows = _ask(queue, [("EXISTS", keys.row(member)) for member, _ in found])
    lost = [each for each, exists in zip(found, rows, strict=True) if exists == 0]
    asked = [[("EXISTS", keys.row(member)), *(("EXISTS", keys.row(member, sub)) for sub in SUBS)] for member, _ in lost]
    for (member, met), replies in zip(lost, queue.server.try_ask_each(asked), strict=True):
        row, *there = permitted(replies)
        subs = tuple(sub for sub, exists in zip(SUBS, there, strict=True) if exists == 1)
        if subs[:1] == (met,):
            yield from SUBKEYS.judge(Subkeys(queue.name, member, row == 1, subs))


def dedups(queue: Queue, suffixes: Sequence[bytes]) -> Iterator[Finding]:
    """Yield what is said of deduplication keys; looked at twice, for a job that came in between."""
    for dedup in _dedups(queue, [each.suffix for each in _dedups(queue, suffixes) if not each.has_row]):
        yield from DEDUPS.judge(dedup)


def _dedups(queue: Queue, suffixes: Sequence[bytes]) -> list[Dedup]:
    keys = queue.keys
    jobs = _ask(queue, [("GETRANGE", keys.prefix + suffix, 0, LONGEST_ID) for suffix in suffixes])
    named = [(suffix, job) for suffix, job in zip(suffixes, jobs, strict=True) if isinstance(job, bytes)]
    rows = _ask(queue, [("EXISTS", keys.row(job)) for _, job in named])
    return [Dedup(queue.name, suffix, job, exists == 1) for (suffix, job), exists in zip(named, rows, strict=True)]


def repeats(queue: Queue, names: Sequence[bytes]) -> Iterator[Finding]:
    """Yield what is said of repeats by name, each seen at one moment."""
    keys = queue.keys
    asked = [(("ZSCORE", keys.fixed("repeat"), name), ("EXISTS", keys.repeat(name))) for name in names]
    for name, replies in zip(names, queue.server.try_ask_each(asked), strict=True):
        score, exists = permitted(replies)
        if not isinstance(score, EmqError):
            yield from REPEATS.judge(Repeat(queue.name, name, score is not None, exists == 1))


def strange(queue: Queue, suffixes: Sequence[bytes]) -> Iterator[Finding]:
    """Yield what is said of keys of a queue that nobody knows."""
    for suffix in suffixes:
        yield from STRANGE.judge(Strange(queue.name, suffix))


def _ask(queue: Queue, commands: Sequence[Command]) -> list[Any]:
    return permitted(queue.server.try_ask(*commands)) if commands else []
