"""Running the audit in the core, and its findings in the words of the recorded one."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import redis
import worlds

from emqctl.audit import Audit
from emqctl.config import Settings
from emqctl.connection import Server, connect
from emqctl.demo import life
from emqctl.endpoint import parse_url
from emqctl.keyspace import encode
from emqctl.records import Finding
from emqctl.repairs import Repaired, repair

PACE = 120  # four minutes of the demo pass in two seconds
LANE_RULES = {
    *("gactive_mismatch", "lane_starved", "lane_on_ring_twice"),
    *("lane_on_ring_not_serviceable", "paused_lane_with_backlog"),
}
KEY_RULES = {
    *("dedup_dangling", "repeat_overdue", "repeat_without_record", "repeat_record_without_member"),
    *("unknown_suffix", "wrong_type_key"),
}


@contextmanager
def opened(url: str) -> Iterator[Server]:
    """Yield the server as emqctl has it, notes thrown away."""
    with connect(Settings(parse_url(url), 5, read_only=False), lambda _: None) as server:
        yield server


def audited(url: str, *names: str) -> list[Finding]:
    """Return what the audit finds, in the order it is found."""
    with opened(url) as server:
        return list(Audit(server, names))


def repaired(url: str, findings: Iterable[Finding], *, dry_run: bool = False) -> list[Finding]:
    """Repair findings; return them with what became of them."""
    with opened(url) as server:
        return [each for batch in batches(server, findings, dry_run=dry_run) for each in batch.findings]


def batches(server: Server, findings: Iterable[Finding], *, dry_run: bool = False) -> Iterator[Repaired]:
    """Yield what becomes of findings, batch by batch."""
    return repair(server, list(findings), lambda _queue, _ids: None, dry_run=dry_run)


def contents(client: redis.Redis) -> dict[bytes, Any]:
    """Return what every key holds, times to live left aside."""
    return {key: (value.type, value.content) for key, value in worlds.snapshot(client).items()}


def name_of(finding: Finding) -> tuple[Any, ...]:
    """Return what tells one finding from another."""
    return finding.queue, finding.rule, finding.id, finding.lane, (finding.place or "").partition(":")[0]


def worth_knowing(findings: Iterable[Finding]) -> set[str]:
    """Return the rules that found something broken or stuck."""
    return {finding.rule for finding in findings if finding.level != "note"}


def subject(finding: Finding) -> bytes:
    """Return what the recorded audit calls a finding by."""
    if finding.rule in LANE_RULES:
        return finding.lane or b""
    if finding.rule in KEY_RULES:
        place = encode(finding.place or "")
        return place if finding.rule in {"wrong_type_key", "unknown_suffix"} else place.partition(b":")[2]
    return b"0" if finding.rule == "outbox_malformed_at" else finding.id or b""


def recorded(audit: dict[str, dict[str, Any]]) -> Iterator[tuple[str, str, bytes]]:
    """Yield the findings of world_ids.json one by one: queue, rule, subject."""
    for queue, rules in audit.items():
        for rule, things in rules.items():
            for thing in things:
                name = thing[0] if isinstance(thing, list) else thing
                yield queue, rule, b64decode(name["b64"]) if isinstance(name, dict) else str(name).encode()


@contextmanager
def living(connect_: Callable[[], redis.Redis]) -> Iterator[None]:
    """Let the demo's producers and workers act meanwhile."""
    stop = Event()
    thread = Thread(target=life.live, args=(connect_, stop, 1, PACE))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()
