"""The sample world of ``emqctl demo``: four queues in which everything an operator meets has happened."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from itertools import chain
from random import Random

from emqctl.branded import EPOCH_MS, BrandedId
from emqctl.demo.samples import ERRORS, ODD, email_payload, error_text, order_payload
from emqctl.keyspace import VERSION_KEY, QueueKeys

WIRE_VERSION = b"echomq:3.0.0"

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_LEASE = 10 * _MINUTE
_NEWEST_ORDER = 48_213
_TIMEOUT = next(iter(ERRORS))
_STATE = {"pending": "pending", "active": "active", "schedule": "scheduled", "dead": "dead"}

_Command = tuple[bytes, ...]
_Word = bytes | str | int | BrandedId


def commands(now_ms: int) -> Iterator[_Command]:
    """Yield the commands that build the world into an empty database, as of ``now_ms`` of the server's clock.

    Sound by the protocol's invariants; three leases in `orders` have lapsed and four of its runs are due.
    The same ``now_ms`` gives the same world.
    """
    mint = _Mint(now_ms)
    yield _command("SET", VERSION_KEY, WIRE_VERSION)
    for queue in (_orders(mint), _emails(mint), _invoices(mint), _frozen(mint)):
        yield from queue.commands()


def _orders(mint: _Mint) -> _Queue:
    """Flat jobs: 300 waiting, the newest seconds old, and some in every other place."""
    queue, rng = _Queue("orders"), mint.rng
    odd = {12 + 17 * nth: payload for nth, payload in enumerate(ODD)}
    for nth in range(300):
        job = mint(int(3 * _DAY * ((nth + 2 + rng.random()) / 303) ** 3))
        queue.put("pending", job, odd[nth] if nth in odd else order_payload(rng, _NEWEST_ORDER - nth))
        if nth == 0:
            queue.write("SET", queue.keys.dedup(b"order-%d" % _NEWEST_ORDER), job, "PX", _DAY)
    for nth, minutes in enumerate((-9, -4, -2, 10, 11, 12, 14, 15, 17, 20)):
        job, token, ends_ms = mint((nth + 2) * 7 * _MINUTE), 1 + nth % 3, mint.now_ms + minutes * _MINUTE
        queue.put("active", job, order_payload(rng, 47_800 - nth), ends_ms, attempts=token, progress=f"{nth}0 %")
        if nth % 2:
            queue.write("RPUSH", queue.keys.job(job, "logs"), "reserved the stock", f"asked the bank, try {token}")
        if nth % 2 and minutes > 0:
            queue.write("SET", queue.keys.job(job, "lock"), token, "PX", 2 * _LEASE)
    for nth in range(14):
        run_ms = mint.now_ms + (nth - 4) * 13 * _MINUTE + 5 * _MINUTE
        failed: dict[str, _Word] = {"attempts": 2, "last_error": error_text(rng, _TIMEOUT)} if nth % 3 == 0 else {}
        queue.put("schedule", mint((nth + 1) * 3 * _HOUR), order_payload(rng, 47_500 - nth), run_ms, **failed)
    families = list(chain.from_iterable([family] * jobs for family, jobs in ERRORS.items()))
    rng.shuffle(families)
    for nth, family in enumerate(families):
        job = mint(_HOUR + nth * 97 * _MINUTE + rng.randrange(_HOUR))
        payload = order_payload(rng, 47_100 - 11 * nth)
        queue.put("dead", job, payload, attempts=3, last_error=error_text(rng, family))
    queue.put("dead", mint(5 * _HOUR), order_payload(rng, 47_011), attempts=1, stalled=1, last_error="stalled")
    queue.count(completed=18_342, failed=74)
    return queue


def _emails(mint: _Mint) -> _Queue:
    """Lanes, one a tenant."""
    queue, rng = _Queue("emails"), mint.rng
    busy, paused, full, heavy, drained, dead = (mint((90 - nth) * _DAY, "TEN") for nth in range(6))
    for group, waiting, active, died in (
        (busy, 28, 2, 3),
        (paused, 12, 0, 1),
        (full, 9, 2, 0),
        (heavy, 15, 1, 0),
        (drained, 0, 1, 0),
        (dead, 0, 0, 4),
    ):
        for _ in range(waiting):
            queue.put("pending", mint(rng.randrange(_SECOND, 4 * _HOUR)), email_payload(rng), group=group)
        for nth in range(active):
            ends_ms = mint.now_ms + _LEASE + nth * _MINUTE
            queue.put("active", mint(5 * _HOUR), email_payload(rng), ends_ms, attempts=1, group=group)
        for _ in range(died):
            job = mint(rng.randrange(6 * _HOUR, 2 * _DAY))
            error = f"550 5.1.1 mailbox of 'c-{rng.randint(1000, 2999)}' is full"
            queue.put("dead", job, email_payload(rng), attempts=3, group=group, last_error=error)
    queue.put("schedule", mint(_HOUR), email_payload(rng), mint.now_ms + 2 * _HOUR, group=busy)
    queue.paused.append(paused)
    queue.limits.update({full: 2, busy: 5})
    queue.weights[heavy] = 3
    queue.count(completed=96_021, failed=11)
    return queue


def _invoices(mint: _Mint) -> _Queue:
    """Two flows, one held and one dead by its child, and a repeat registration."""
    queue = _Queue("invoices")
    held, dead = mint(40 * _MINUTE), mint(9 * _HOUR)
    done = [mint(40 * _MINUTE) for _ in range(3)]
    queue.put(None, held, b'{"statement":"2026-11","pages":5}')
    queue.put("active", mint(40 * _MINUTE), b'{"page":3}', mint.now_ms + _LEASE, attempts=1, parent=held)
    for page in (b'{"page":4}', b'{"page":5}'):
        queue.put("pending", mint(40 * _MINUTE), page, parent=held)
    queue.write("SET", queue.keys.job(held, "dependencies"), 3)
    queue.write("HSET", queue.keys.job(held, "processed"), done[0], b'{"rows":40}', done[1], b'{"rows":38}')

    failed, error = mint(9 * _HOUR), "template 'reminder' has no translation for locale 'fi'"
    queue.put("dead", dead, b'{"reminders":"2026-11"}')
    queue.put("dead", failed, b'{"reminder":"c-1931"}', attempts=3, parent=dead, parent_policy="fp", last_error=error)
    queue.put("pending", mint(9 * _HOUR), b'{"reminder":"c-2107"}', parent=dead, parent_policy="fp")
    queue.write("SET", queue.keys.job(dead, "dependencies"), 2)
    queue.write("HSET", queue.keys.job(dead, "failed"), failed, error)
    queue.write("HSET", queue.keys.job(dead, "processed"), done[2], b'{"sent":true}')

    queue.write("HSET", queue.keys.repeat(b"statements"), "every_ms", _DAY, "template", b'{"statement":"daily"}')
    queue.write("ZADD", queue.keys.fixed("repeat"), mint.now_ms + 6 * _HOUR, "statements")
    queue.count(completed=1207, failed=1)
    return queue


def _frozen(mint: _Mint) -> _Queue:
    """A paused queue: flat jobs, and a lane that stays on the ring."""
    queue, rng, group = _Queue("frozen"), mint.rng, mint(30 * _DAY, "TEN")
    for nth in range(8):
        queue.put("pending", mint((nth + 30) * _HOUR), order_payload(rng, 45_000 - nth))
        queue.put("pending", mint((nth + 31) * _HOUR), email_payload(rng), group=group)
    queue.write("HSET", queue.keys.fixed("meta"), "paused", 1)
    return queue


class _Mint:
    """Makes ids of a given age, no two alike, and carries the clock and the dice."""

    def __init__(self, now_ms: int) -> None:
        self.now_ms = now_ms
        self.rng = Random(48_213)  # noqa: S311 - samples, no secrets
        self._sequence = 0

    def __call__(self, age_ms: int, namespace: str = "JOB") -> BrandedId:
        self._sequence += 1
        node = self.rng.randint(1, 4)
        return BrandedId(namespace, (self.now_ms - age_ms - EPOCH_MS) << 22 | node << 12 | self._sequence)


class _Queue:
    """A queue in the making: sets, ring and lane counters follow from the jobs that are put in."""

    def __init__(self, name: str) -> None:
        self.keys = QueueKeys(name)
        self.paused: list[BrandedId] = []
        self.limits: dict[BrandedId, int] = {}
        self.weights: dict[BrandedId, int] = {}
        self._sets: defaultdict[bytes, list[_Word]] = defaultdict(list)  # key -> score, id, score, id …
        self._waiting: Counter[BrandedId] = Counter()
        self._in_flight: Counter[BrandedId] = Counter()
        self._written: list[_Command] = []

    def put(self, place: str | None, job: BrandedId, payload: bytes, score: int = 0, /, **fields: _Word) -> None:
        """Add a job; ``place`` None is a held flow parent, a ``group`` among the fields makes it a lane's."""
        state = "awaiting_children" if place is None else _STATE[place]
        self.write("HSET", self.keys.job(job), *_pairs({"state": state, "attempts": 0, "payload": payload, **fields}))
        group = fields.get("group")
        if isinstance(group, BrandedId):
            self._waiting[group] += place == "pending"
            self._in_flight[group] += place == "active"
        if isinstance(group, BrandedId) and place == "pending":
            self._sets[self.keys.lane(group)] += score, job
        elif place is not None:
            self._sets[self.keys.fixed(place)] += score, job

    def write(self, *words: _Word) -> None:
        """Add a command of its own."""
        self._written.append(_command(*words))

    def count(self, *, completed: int, failed: int) -> None:
        """Set the counters of a lifetime."""
        self.write("HSET", self.keys.fixed("metrics:completed"), "count", completed)
        self.write("HSET", self.keys.fixed("metrics:failed"), "count", failed)

    def commands(self) -> Iterator[_Command]:
        """Yield everything that makes the queue."""
        yield from self._written
        for key, scored in self._sets.items():
            yield _command("ZADD", key, *scored)
        in_flight = {group: jobs for group, jobs in self._in_flight.items() if jobs}
        for kind, per_group in (("gactive", in_flight), ("glimit", self.limits), ("gweight", self.weights)):
            if per_group:
                yield _command("HSET", self.keys.fixed(kind), *_pairs(per_group))
        if self.paused:
            yield _command("SADD", self.keys.fixed("paused"), *self.paused)
        ring = [group for group, jobs in self._waiting.items() if jobs and self._is_open(group)]
        if ring:
            yield _command("RPUSH", self.keys.fixed("ring"), *ring)
            yield _command("LPUSH", self.keys.fixed("wake"), *[1] * len(ring))

    def _is_open(self, group: BrandedId) -> bool:
        limit = self.limits.get(group)
        return group not in self.paused and (limit is None or self._in_flight[group] < limit)


def _pairs(mapping: Mapping[BrandedId, int] | Mapping[str, _Word]) -> Iterator[_Word]:
    for name, value in mapping.items():
        yield name
        yield value


def _command(*words: _Word) -> _Command:
    return tuple(word if isinstance(word, bytes) else str(word).encode() for word in words)
