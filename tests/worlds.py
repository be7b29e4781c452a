"""Whole databases as test data: the recorded world, golden transitions, and what differs between two states."""

from __future__ import annotations

import json
import re
from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import redis
from redis.client import Pipeline

from emqctl.keyspace import VERSION_KEY

DATA = Path(__file__).parent / "data"
CHUNK = 500

_TIMED = re.compile(rb"emq:\{[^}]*\}:(active|schedule|repeat)")


@dataclass(frozen=True)
class World:
    """The recorded world as loaded; ``now_ms`` is the moment its times were moved to."""

    raw: dict[str, Any]  # world_ids.json, explained in data/README.md
    now_ms: int

    @property
    def ids(self) -> dict[str, dict[str, str]]:
        """Name -> ``queue``, ``id``, ``note``, and a job's ``reference_state``."""
        ids: dict[str, dict[str, str]] = self.raw["ids"]
        return ids

    @property
    def queues(self) -> dict[str, dict[str, Any]]:
        """Queue -> its sizes, lanes and paused flag."""
        queues: dict[str, dict[str, Any]] = self.raw["queues"]
        return queues

    def counts(self, queue: str) -> dict[str, Any]:
        """Return what ``depth --states`` counts of a queue, as recorded."""
        known, audit = self.queues[queue], self.raw["audit"].get(queue, {})
        lanes = known.get("lane_pending", 0)
        return {
            "queue": queue,
            "pending": known["pending"],
            "lanes": lanes,
            "waiting": known["pending"] + lanes,
            "active": known["active"],
            "lapsed": len(audit.get("active_expired", ())),
            "scheduled": known["schedule"],
            "overdue": len(audit.get("schedule_overdue", ())),
            "dead": known["dead"],
            "completed": known["completed"],
            "failed": known["failed"],
        }


@dataclass(frozen=True)
class Value:
    """What one key holds: bytes, list, set, dict of a hash, member -> score, or stream entries."""

    type: str
    content: Any
    ttl_ms: int | None = None


Snapshot = dict[bytes, Value]


def load_world(client: redis.Redis, now_ms: int | None = None) -> World:
    """Write the recorded world into an empty database, its leases, run-ats and next runs moved to ``now_ms``."""
    now_ms = server_ms(client) if now_ms is None else now_ms
    world, raw = _recorded("world.json"), _recorded("world_ids.json")
    shift_ms = now_ms - world["now_ms"]
    send(client, _world_commands(world["keys"], shift_ms))
    return World(raw, now_ms)


def transitions() -> list[dict[str, Any]]:
    """Return the golden recordings, explained in data/README.md."""
    recordings: list[dict[str, Any]] = _recorded("transitions.json")["transitions"]
    return recordings


def put(client: redis.Redis, state: dict[str, Any], clock_ms: int) -> None:
    """Write a recording's ``before`` or ``after`` into an empty database, its offsets counted from ``clock_ms``."""
    send(client, _state_commands(state, clock_ms))


def differences(client: redis.Redis, state: dict[str, Any], first_ms: int, last_ms: int | None = None) -> list[str]:
    """Return a line for each key that is not as in ``state``; none when the database matches.

    A recorded offset matches a time that lies by it from ``first_ms`` to ``last_ms``, the server's
    clock before ``put`` and after the call. The version key is left out.
    """
    last_ms = first_ms if last_ms is None else last_ms
    found = {key: value for key, value in snapshot(client).items() if key != VERSION_KEY}
    wanted = {key.encode(): entry for key, entry in state.items()}
    lines = []
    for key in sorted(found.keys() | wanted.keys()):
        if key not in wanted:
            lines.append(f"{_text(key)}: unexpected {found[key].type} {found[key].content!r}")
        elif key not in found:
            lines.append(f"{_text(key)}: missing, should be {wanted[key]['type']} {_content(wanted[key])!r}")
        else:
            lines += [f"{_text(key)}: {line}" for line in _compare(found[key], wanted[key], first_ms, last_ms)]
    return lines


def matches(client: redis.Redis, state: dict[str, Any], first_ms: int, last_ms: int | None = None) -> bool:
    """Tell whether ``differences`` finds none."""
    return not differences(client, state, first_ms, last_ms)


def snapshot(client: redis.Redis) -> Snapshot:
    """Return everything in the database."""
    keys = sorted(client.scan_iter(count=1000))
    types = [kind.decode() for kind in _ask(client, [(b"TYPE", key) for key in keys])]
    with client.pipeline(transaction=False) as pipeline:
        for key, kind in zip(keys, types, strict=True):
            _READ[kind](pipeline, key)
            pipeline.pttl(key)
        answers = iter(pipeline.execute())
    return {
        key: Value(kind, dict(content) if kind == "zset" else content, ttl_ms if ttl_ms >= 0 else None)
        for key, kind, content, ttl_ms in zip(keys, types, answers, answers, strict=True)
    }


def send(client: redis.Redis, commands: Iterable[tuple[Any, ...]]) -> None:
    """Send many commands in few round trips."""
    rest = iter(commands)
    while chunk := list(islice(rest, CHUNK)):
        _ask(client, chunk)


def server_ms(client: redis.Redis) -> int:
    """Return the server's clock in milliseconds since 1970."""
    seconds, micros = client.time()
    return seconds * 1000 + micros // 1000


_READ: dict[str, Callable[[Pipeline, bytes], Any]] = {
    "string": Pipeline.get,
    "hash": Pipeline.hgetall,
    "list": lambda pipeline, key: pipeline.lrange(key, 0, -1),
    "set": Pipeline.smembers,
    "zset": lambda pipeline, key: pipeline.zrange(key, 0, -1, withscores=True),
    "stream": Pipeline.xrange,
}


@cache
def _recorded(name: str) -> dict[str, Any]:
    recorded: dict[str, Any] = json.loads((DATA / name).read_text("utf-8"))
    return recorded


def _ask(client: redis.Redis, commands: list[tuple[Any, ...]]) -> list[Any]:
    with client.pipeline(transaction=False) as pipeline:
        for command in commands:
            pipeline.execute_command(*command)
        return pipeline.execute()


def _world_commands(entries: list[dict[str, Any]], shift_ms: int) -> Iterator[tuple[Any, ...]]:
    for entry in entries:
        key, value = _bytes(entry["key"]), entry["value"]
        if entry["type"] == "stream":
            yield from ((b"XADD", key, entry_id, *map(_bytes, words)) for entry_id, words in value)
        elif entry["type"] == "hash":
            yield b"HSET", key, *(_bytes(word) for pair in value for word in pair)
        else:
            yield _write(key, entry["type"], value, shift_ms if _TIMED.fullmatch(key) else 0)
        if entry["ttl_ms"] is not None:
            yield b"PEXPIRE", key, entry["ttl_ms"]


def _state_commands(state: dict[str, Any], clock_ms: int) -> Iterator[tuple[Any, ...]]:
    for key, entry in state.items():
        if entry["type"] == "hash":
            yield b"HSET", key, *(_bytes(word) for pair in entry["value"].items() for word in pair)
        else:
            yield _write(key.encode(), entry["type"], entry["value"], clock_ms if entry.get("rel") else 0)
        if "ttl_ms" in entry:
            yield b"PEXPIRE", key, entry["ttl_ms"]


def _write(key: bytes, kind: str, value: Any, shift_ms: int) -> tuple[Any, ...]:
    if kind == "zset":
        return b"ZADD", key, *(word for member, score in value for word in (score + shift_ms, _bytes(member)))
    if kind == "string":
        return b"SET", key, _bytes(value)
    return {"list": b"RPUSH", "set": b"SADD"}[kind], key, *map(_bytes, value)


def _compare(found: Value, entry: dict[str, Any], first_ms: int, last_ms: int) -> Iterator[str]:
    wanted = _content(entry)
    if found.type != entry["type"]:
        yield f"is a {found.type}, should be a {entry['type']}"
    elif isinstance(wanted, dict):
        early, late = (first_ms, last_ms) if entry.get("rel") else (0, 0)
        for name in sorted(found.content.keys() | wanted.keys()):
            is_, should = found.content.get(name), wanted.get(name)
            timed = found.type == "zset" and None not in {is_, should}
            if not (early <= is_ - should <= late if timed else is_ == should):
                window = f" + {early}..{late}" if timed else ""
                yield f"{_text(name)} is {is_!r}, should be {should!r}{window}"
    elif found.content != wanted:
        yield f"is {found.content!r}, should be {wanted!r}"
    if (found.ttl_ms is None) != ("ttl_ms" not in entry) or (found.ttl_ms or 0) > entry.get("ttl_ms", 0):
        yield f"expires in {found.ttl_ms} ms, should in {entry.get('ttl_ms')} ms"


def _content(entry: dict[str, Any]) -> Any:
    kind, value = entry["type"], entry["value"]
    if kind == "hash":
        return {_bytes(field): _bytes(text) for field, text in value.items()}
    if kind == "zset":
        return {_bytes(member): score for member, score in value}
    if kind == "string":
        return _bytes(value)
    return {"list": list, "set": set}[kind](map(_bytes, value))


def _bytes(recorded: str | dict[str, str]) -> bytes:
    return b64decode(recorded["b64"]) if isinstance(recorded, dict) else recorded.encode()


def _text(raw: bytes) -> str:
    return raw.decode("utf-8", "backslashreplace")
