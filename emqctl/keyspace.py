"""Every key of EchoMQ: the one place that spells them, and the one parser that takes them apart.

All keys of a queue share the hash tag ``{queue}``, hence one cluster slot. Queue names are ``str``
(bytes that are not UTF-8 as surrogate escapes, as in ``sys.argv``); keys are ``bytes``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from emqctl import branded
from emqctl.branded import BrandedId
from emqctl.errors import Malformed
from emqctl.slots import hash_tag, slot_of

#: Redis type of each key that stands alone, by the word it is called.
FIXED = {
    "pending": "zset",  # job ids, score 0: byte order = mint order
    "active": "zset",  # job id -> lease deadline, ms of the server's clock
    "schedule": "zset",  # job id -> run-at, ms
    "dead": "zset",  # job ids, score 0
    "ring": "list",  # rota of the servable lanes
    "paused": "set",  # groups of the paused lanes
    "gactive": "hash",  # group -> jobs in flight
    "glimit": "hash",  # group -> most jobs in flight
    "gweight": "hash",  # group -> jobs served per turn
    "wake": "list",  # parking tokens of idle workers
    "meta": "hash",  # `paused` (any value), `concurrency`, `max`
    "limiter": "string",  # rate counter
    "repeat": "zset",  # registration name -> next run, ms
    "metrics:completed": "hash",  # `count`
    "metrics:failed": "hash",  # `count`
    "metrics:completed:data": "list",  # reserved
    "metrics:failed:data": "list",  # reserved
    "flow:outbox": "list",  # settlements for flow parents in other queues
    "events": "channel",  # pub/sub, no key
}

#: Types that take a name; `repeat` is both the set of registrations and, named, one record.
NAMED = {"job": "hash", "lane": "zset", "dedup": "string", "repeat": "hash", "stream": "stream"}

#: What can hang below a job row, and its Redis type.
JOB_SUBS = {
    "lock": "string",
    "logs": "list",
    "dependencies": "string",
    "processed": "hash",
    "failed": "hash",
    "unsuccessful": "hash",
}

#: A queue is seen when one of these exists (EchoMQ keeps no register of queues).
SEEN_BY = (
    *("pending", "active", "schedule", "dead", "ring", "paused", "gactive", "glimit", "gweight", "wake"),
    *("meta", "limiter", "repeat", "metrics:completed", "metrics:failed", "flow:outbox"),
)

RESERVE_UNITS = ("version", "locks", "bundle", "migration:QUEUE")
VERSION_KEY = b"{emq}:version"
EVERY_QUEUE_KEY = b"emq:*"  # SCAN pattern; never matches the reserve

_GRAMMAR = re.compile(r"[A-Za-z0-9._-]{1,128}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_DEDUP = re.compile(rb"[A-Za-z0-9._-]{1,255}")
_PER_QUEUE = re.compile(rb"emq:\{([^}]*)\}:(.*)", re.DOTALL)
_LANE = re.compile(rb"g:([^:]{14}):pending")
_RESERVED_QUEUE = "emq"
_ARCHIVED = b":archived"


def encode(text: str) -> bytes:
    """Turn a name into the bytes it stands for in a key. Raises Malformed for a lone surrogate."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Malformed("text", text, "it holds half a character") from error


def decode(raw: bytes) -> str:
    """Turn bytes of a key into a name; loses nothing (see ``encode``)."""
    return raw.decode("utf-8", "surrogateescape")


def check_queue(name: str) -> str:
    """Return a queue name that can be built into keys, or raise Malformed.

    Names outside the documented grammar exist in deployments and pass (see ``in_grammar``).
    """
    name = decode(encode(name))  # in an ASCII locale even UTF-8 arrives as surrogate escapes
    if not name:
        raise Malformed("a queue name", name, "it is empty")
    if "{" in name or "}" in name:
        raise Malformed("a queue name", name, "braces end the hash tag")
    if _CONTROL.search(name):
        raise Malformed("a queue name", name, "it holds a control character")
    if name == _RESERVED_QUEUE:
        raise Malformed("a queue name", name, "that hash tag is reserved for the protocol's own keys")
    return name


def in_grammar(name: str) -> bool:
    """Tell whether a queue name is of the documented grammar ``[A-Za-z0-9._-]{1,128}``."""
    return _GRAMMAR.fullmatch(name) is not None and name != _RESERVED_QUEUE


class QueueKeys:
    """The keys of one queue. Raises Malformed for a name that cannot be one."""

    def __init__(self, queue: str) -> None:
        self.queue = check_queue(queue)
        self.prefix = b"emq:{" + encode(self.queue) + b"}:"

    def fixed(self, kind: str) -> bytes:
        """Return a key that takes no name: a word of ``FIXED``."""
        if kind not in FIXED:
            if kind in NAMED:
                raise Malformed("a whole key", kind, f"a {kind} key needs a name after it")
            raise Malformed("a key type", kind, f"known are {' '.join((*FIXED, *NAMED))}")
        return self.prefix + kind.encode("ascii")

    @property
    def pending(self) -> bytes:
        """ZSET of flat waiting jobs."""
        return self.fixed("pending")

    @property
    def active(self) -> bytes:
        """ZSET of jobs in flight, scored by lease deadline in ms."""
        return self.fixed("active")

    @property
    def schedule(self) -> bytes:
        """ZSET of jobs that wait for their time, scored by run-at in ms."""
        return self.fixed("schedule")

    @property
    def dead(self) -> bytes:
        """ZSET of dead jobs."""
        return self.fixed("dead")

    def lane(self, group: BrandedId) -> bytes:
        """ZSET of the jobs waiting in one lane."""
        return self.lane_as_named(bytes(group))

    def job(self, job_id: BrandedId, sub: str | None = None) -> bytes:
        """HASH of one job, or one of the keys below it: a word of ``JOB_SUBS``."""
        return self.row(bytes(job_id), sub)

    def row(self, member: bytes, sub: str | None = None) -> bytes:
        """HASH key of a set member as it stands, or a key below it, for reading; ``job`` builds from a checked id."""
        return self.prefix + b"job:" + member + (b":" + _job_sub(sub) if sub is not None else b"")

    def lane_as_named(self, group: bytes) -> bytes:
        """ZSET key of a lane as the ring or a counter names it, for reading; ``lane`` builds from a checked id."""
        return self.prefix + b"g:" + group + b":pending"

    def dedup(self, dedup_id: bytes) -> bytes:
        """STRING holding the id of the job that owns a deduplication id."""
        if not _DEDUP.fullmatch(dedup_id):
            raise Malformed("a dedup id", decode(dedup_id), "it is 1 to 255 of A-Z a-z 0-9 . _ -")
        return self.prefix + b"de:" + dedup_id

    def repeat(self, name: bytes) -> bytes:
        """HASH of one repeat registration."""
        if not name:
            raise Malformed("a repeat name", "", "it is empty")
        return self.prefix + b"repeat:" + name

    def stream(self, name: bytes, *, archived: bool = False) -> bytes:
        """STREAM, or the STRING holding its archive watermark."""
        if not name or name.endswith(_ARCHIVED):
            why = "it is empty or ends in ':archived', which is another stream's watermark"
            raise Malformed("a stream name", decode(name), why)
        return self.prefix + b"stream:" + name + (_ARCHIVED if archived else b"")

    @property
    def seen_by(self) -> list[bytes]:
        """The keys one of which exists when the queue is in use."""
        return [self.fixed(kind) for kind in SEEN_BY]

    @property
    def scan_pattern(self) -> bytes:
        """SCAN pattern of every key of this queue and of no other."""
        return re.sub(rb"([\\*?\[\]])", rb"\\\1", self.prefix) + b"*"

    @property
    def lane_pattern(self) -> bytes:
        """SCAN pattern of the lanes of this queue that hold a job."""
        return self.scan_pattern[:-1] + b"g:*:pending"


def build(queue: str, kind: str, name: str | None = None, sub: str | None = None) -> bytes:
    """Compose any key of a queue from the words ``parse`` answers with. Raises Malformed."""
    keys = QueueKeys(queue)
    if name is None:
        if sub is not None:
            raise Malformed("a part below a key", sub, f"a name of the {kind} stands before it")
        return keys.fixed(kind)
    if kind not in NAMED:
        keys.fixed(kind)
        raise Malformed("a key type with a name", kind, "it stands alone")
    if sub is not None and kind not in {"job", "stream"}:
        raise Malformed("a key type with a part below", kind, "only job and stream have one")
    raw = encode(name)
    if kind == "job":
        return keys.job(branded.parse(raw), sub)
    if kind == "lane":
        return keys.lane(branded.parse(raw))
    if kind == "dedup":
        return keys.dedup(raw)
    if kind == "repeat":
        return keys.repeat(raw)
    if sub not in {None, "archived"}:
        raise Malformed("a part of a stream", sub or "", "known is archived")
    return keys.stream(raw, archived=sub is not None)


def build_reserve(unit: str) -> bytes:
    """Compose a key of the closed reserve: ``version locks bundle migration:QUEUE``. Raises Malformed."""
    head, colon, queue = unit.partition(":")
    if head == "migration" and colon:
        check_queue(queue)
    elif unit not in RESERVE_UNITS[:-1]:
        raise Malformed("a reserve key", unit, f"known are {' '.join(RESERVE_UNITS)}")
    return b"{emq}:" + encode(unit)


def queue_of(key: bytes) -> str | None:
    """Return the queue whose hash tag a key carries, or None for keys of no queue."""
    return place_of(key)[0]


def place_of(key: bytes) -> tuple[str | None, bytes | None]:
    """Return the queue whose hash tag a key carries, and the lane whose waiting jobs it holds; None for neither."""
    shaped = _PER_QUEUE.fullmatch(key)
    queue = _queue_of_tag(shaped[1]) if shaped else None
    lane = _LANE.fullmatch(shaped[2]) if shaped and queue is not None else None
    return queue, lane[1] if lane and branded.is_branded(lane[1]) else None


def split(key: bytes) -> tuple[str, bytes] | None:
    """Return the queue of a key and the suffix behind its prefix, or None for keys of no queue; costs a microsecond."""
    shaped = _PER_QUEUE.fullmatch(key)
    queue = _queue_of_tag(shaped[1]) if shaped else None
    return (queue, shaped[2]) if shaped and queue is not None else None


def sort_suffix(suffix: bytes) -> tuple[str | None, bytes, str | None]:
    """Tell type, name and part below of a suffix, for looking through a queue; the type is None for an unknown one.

    Unlike ``parse`` it takes names of jobs and dedup keys that break the grammar for what they were meant to be.
    """
    head, colon, rest = suffix.partition(b":")
    if head == b"job" and colon:
        member, below, sub = rest.partition(b":")
        is_known = not below or decode(sub) in JOB_SUBS
        return ("job", member, decode(sub) if below else None) if is_known else (None, suffix, None)
    if head == b"de" and rest:
        return "dedup", rest, None
    type_, name, part = _suffix_words(suffix) or (None, None, None)
    return type_, suffix if name is None else encode(name), part


@lru_cache(maxsize=4096)
def _queue_of_tag(tag: bytes) -> str | None:
    try:
        return check_queue(decode(tag))
    except Malformed:
        return None


@dataclass(frozen=True)
class KeyName:
    """A key taken apart; ``kind`` is ``queue``, ``reserve`` or ``unclassified``.

    ``type``, ``id`` and ``sub`` are the words ``build`` takes (of the reserve, ``type`` is the unit
    ``build_reserve`` takes). An unclassified key of a queue still names its ``queue``.
    """

    key: bytes
    kind: str
    queue: str | None
    type: str | None
    id: str | None
    sub: str | None
    tag: bytes
    slot: int

    @property
    def redis_type(self) -> str:
        """The type the protocol gives such a key: ``zset``, …; an unclassified one is a ``string`` to us."""
        if self.kind != "queue" or self.type is None or self.sub == "archived":
            return "string"
        if self.sub is not None:
            return JOB_SUBS[self.sub]
        return FIXED[self.type] if self.id is None else NAMED[self.type]


def parse(key: bytes) -> KeyName:
    """Take any key apart; never raises, ``unclassified`` is an answer."""
    reserve = _reserve_unit(key)
    queue = queue_of(key)
    words = None if queue is None else _suffix_words(key[len(QueueKeys(queue).prefix) :])
    kind = "reserve" if reserve else "queue" if words else "unclassified"
    type_, id_, sub = (reserve, None, None) if reserve else words or (None, None, None)
    return KeyName(key, kind, queue, type_, id_, sub, hash_tag(key), slot_of(key))


def _reserve_unit(key: bytes) -> str | None:
    unit = decode(key.removeprefix(b"{emq}:"))
    try:
        return unit if build_reserve(unit) == key else None
    except Malformed:
        return None


def _suffix_words(suffix: bytes) -> tuple[str, str | None, str | None] | None:
    if decode(suffix) in FIXED:
        return decode(suffix), None, None
    lane = _LANE.fullmatch(suffix)
    if lane and branded.is_branded(lane[1]):
        return "lane", decode(lane[1]), None
    head, _, rest = suffix.partition(b":")
    return _NAMED_WORDS[head](rest) if head in _NAMED_WORDS else None


def _job_words(rest: bytes) -> tuple[str, str | None, str | None] | None:
    job_id, colon, raw_sub = rest.partition(b":")
    sub = decode(raw_sub) if colon else None
    known = branded.is_branded(job_id) and (sub is None or sub in JOB_SUBS)
    return ("job", decode(job_id), sub) if known else None


def _dedup_words(rest: bytes) -> tuple[str, str | None, str | None] | None:
    return ("dedup", decode(rest), None) if _DEDUP.fullmatch(rest) else None


def _repeat_words(rest: bytes) -> tuple[str, str | None, str | None] | None:
    return ("repeat", decode(rest), None) if rest else None


def _stream_words(rest: bytes) -> tuple[str, str | None, str | None] | None:
    name = rest.removesuffix(_ARCHIVED)
    whole = name and not name.endswith(_ARCHIVED)
    return ("stream", decode(name), None if name == rest else "archived") if whole else None


_NAMED_WORDS = {b"job": _job_words, b"de": _dedup_words, b"repeat": _repeat_words, b"stream": _stream_words}


def _job_sub(sub: str) -> bytes:
    if sub not in JOB_SUBS:
        raise Malformed("a part of a job", sub, f"known are {' '.join(JOB_SUBS)}")
    return sub.encode("ascii")
