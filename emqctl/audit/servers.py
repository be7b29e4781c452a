"""The server itself, and what many findings together say of who does not serve it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from emqctl.audit.rules import BROKEN, NOTE, STUCK, YES, Family, Found
from emqctl.connection import KNOWN_VERSIONS, Server
from emqctl.errors import EmqError, WrongType
from emqctl.keyspace import VERSION_KEY
from emqctl.records import Finding

SERVER, SYMPTOMS = Family(), Family()
NAMED = 5  # queues of a symptom that are named

_MOVING = re.compile(r"\[(\d+)-[<>]-")


@dataclass(frozen=True)
class Node:
    """What a server says of itself; ``eviction`` is None where this user may not know."""

    version: str | None
    hides_version: bool
    eviction: str | None
    max_memory: int
    is_replica: bool
    is_cut_off: bool

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {}


@dataclass(frozen=True)
class Symptom:
    """The queues in which a rule found something, by its name; ``knows_field_ttls`` is the server's."""

    queues: Mapping[str, Collection[str]]
    knows_field_ttls: bool
    server_version: str

    @property
    def about(self) -> dict[str, Any]:
        """Of what a finding is."""
        return {}

    def of(self, rule: str) -> Found:
        """Return the queues in which that rule found something."""
        queues = list(self.queues.get(rule, ()))
        more = f" and {len(queues) - NAMED} more" if len(queues) > NAMED else ""
        return {"queues": ", ".join(queues[:NAMED]) + more, "first": queues[0]} if queues else None


@SERVER.rule(NOTE, None, "this database states no wire version: the next client of EchoMQ that connects claims its own")
def version_missing(node: Node) -> Found:
    """No wire version, and none hidden."""
    return YES if node.version is None and not node.hides_version else None


@SERVER.rule(NOTE, None, "this user may not read the wire version: all is read as if it were a known one")
def version_hidden(node: Node) -> Found:
    """A wire version that cannot be read."""
    return YES if node.hides_version else None


@SERVER.rule(NOTE, None, "the wire version is {version}, which this tool does not know: what it says may be wrong")
def version_unknown(node: Node) -> Found:
    """A wire version that is not known."""
    return {"version": repr(node.version)} if node.version not in {None, *KNOWN_VERSIONS} else None


@SERVER.rule(
    BROKEN,
    None,
    "maxmemory-policy is {policy}: when memory is full the server deletes rows and whole sets of jobs",
    "redis-cli CONFIG SET maxmemory-policy noeviction",
)
def eviction_drops_jobs(node: Node) -> Found:
    """A policy that evicts keys without a TTL; without a limit of memory it is only waiting to."""
    if not (node.eviction or "").startswith("allkeys"):
        return None
    return {"policy": node.eviction, "level": BROKEN if node.max_memory else NOTE}


@SERVER.rule(NOTE, None, "this user may read neither INFO nor CONFIG: whether full memory deletes jobs is not known")
def eviction_unknown(node: Node) -> Found:
    """A policy that cannot be read."""
    return YES if node.eviction is None else None


@SERVER.rule(NOTE, None, "this is a replica{cut}: what it shows may be of the past, and nothing can be repaired there")
def replica_read(node: Node) -> Found:
    """A replica read as if it were a primary."""
    return {"cut": ", cut off from its primary" if node.is_cut_off else ""} if node.is_replica else None


@SYMPTOMS.rule(
    STUCK,
    None,
    "no reaper: leases that ended over a minute ago stay in {queues}; a consumer or metronome takes "
    "them back, batch consumers and pumps do not",
    "emqctl reap {first}",
)
def no_reaper(symptom: Symptom) -> Found:
    """Lapsed leases that nobody takes back."""
    return symptom.of("active_expired")


@SYMPTOMS.rule(
    STUCK,
    None,
    "no promoter: jobs due for over a minute stay scheduled in {queues}; a consumer, metronome or pump lets them wait",
    "emqctl promote {first} --due",
)
def no_promoter(symptom: Symptom) -> Found:
    """Due jobs that nobody lets wait."""
    return symptom.of("schedule_overdue")


@SYMPTOMS.rule(STUCK, None, "no pump: repeats that were to fire over a minute ago stand still in {queues}")
def no_pump(symptom: Symptom) -> Found:
    """Repeats that nobody fires."""
    return symptom.of("repeat_overdue")


@SYMPTOMS.rule(
    NOTE, "H23", "two pumps, as it seems, in {queues}: each run fires twice, and settlements for flows may be dropped"
)
def two_pumps(symptom: Symptom) -> Found:
    """Repeats that fired twice."""
    return symptom.of("repeat_fired_twice")


@SYMPTOMS.rule(NOTE, "H22", "lock fields without end in {queues}: {why}")
def lock_fields_never_expire(symptom: Symptom) -> Found:
    """Lock fields without TTL, and why they have none."""
    found = symptom.of("lock_field_without_ttl")
    if symptom.knows_field_ttls:
        why = "this server can let fields expire, so they come from an older one, or a worker died while it set one"
    else:
        why = f"this server ({symptom.server_version}) cannot let fields expire; each worker that crashes leaves one"
    return None if found is None else {**found, "why": why}


def look(server: Server) -> Iterator[Finding]:
    """Yield what is said of the server."""
    memory, replication = (_information(server, section) for section in ("memory", "replication"))
    eviction = memory.get("maxmemory_policy") or _configured(server)
    node = Node(
        server.version,
        server.hides_version,
        eviction,
        int(memory.get("maxmemory", 1)),
        replication.get("role") == "slave",
        replication.get("master_link_status") == "down",
    )
    return SERVER.judge(node)


def symptoms(server: Server, queues: Mapping[str, Collection[str]]) -> Iterator[Finding]:
    """Yield what findings of several queues together say; ``queues`` by the rule that found something there."""
    answer = server.try_ask(("HPTTL", VERSION_KEY, "FIELDS", 1, "lock"))[0]
    knows = not isinstance(answer, EmqError) or isinstance(answer, WrongType)
    information = _information(server, "server")
    version = next((information[name] for name in ("valkey_version", "redis_version") if name in information), "old")
    return SYMPTOMS.judge(Symptom(queues, knows, version))


def moving_slots(server: Server) -> set[int]:
    """Return the slots that are on their way to or from this node; none where it is no cluster or hides it."""
    nodes = server.ask_this_node(("CLUSTER", "NODES"))
    if not isinstance(nodes, bytes):
        return set()
    return {int(slot) for line in nodes.decode().splitlines() if "myself" in line for slot in _MOVING.findall(line)}


def _information(server: Server, section: str) -> dict[str, str]:
    answer = server.ask_this_node(("INFO", section))
    return {} if isinstance(answer, EmqError) else dict(answer)


def _configured(server: Server) -> str | None:
    answer = server.ask_this_node(("CONFIG", "GET", "maxmemory-policy"))
    if isinstance(answer, EmqError) or not answer:
        return None
    return str(answer[1].decode())
