"""What goes on in the demo while it is looked at: jobs come, wait, run, fail, lapse and come back, hour after hour.

Producers hold back while much waits, and no job dies while many are dead: sizes stay roughly what they
were. An operator who pauses, requeues or removes is simply lived with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from random import Random
from threading import Event
from typing import Any, Protocol

from emqctl import branded
from emqctl.branded import EPOCH_MS, BrandedId
from emqctl.demo.samples import ERRORS, email_payload, error_text, order_payload
from emqctl.demo.worker import Claimed, Rejected, Transitions, host_ms
from emqctl.errors import Malformed

_NODE = 7  # ids of the sample world are of nodes 1 to 4
_NEXT_ORDER = 48_214
_BOUNCES = ("550 5.1.1 mailbox of '{customer}' is full", "421 4.7.0 too many connections from 10.0.{quantity}.{code}")

_BEAT_S = 0.25
_LEASE_S = 30
_RENEWAL_S = 10
_SHORT_S, _LONG_S = (2, 9), (40, 60)
_RETRY_S, _LATER_S = (5, 40), (20, 120)
_MAX_ATTEMPTS = 3

_WORKERS = 4  # of each queue
_LANES = 4  # at least
_LEAST_ORDERS, _LEAST_EMAILS = 20, 4  # that are usual; in a lane
_MORE_DEAD = 60  # than at first, and no job dies

# Shares of 1: of beats in which a job comes while little waits, of jobs, of attempts, of turns.
_COMES, _LATER, _LONG, _LAPSES, _WEIGHTED, _SWEPT = 0.26, 0.15, 0.06, 0.03, 0.3, 0.5
_FAILS, _FAILS_AGAIN = 0.2, 0.5


def live(connect: Callable[[], Any], stop: Event, seed: int, pace: float = 1) -> None:
    """Let producers and workers act on `orders` and `emails` until ``stop`` is set or the server is gone.

    ``connect`` returns a redis-py client that answers bytes; one that does not try again notices at once
    that the server is gone. At a ``pace`` of 60 an hour passes in a minute.
    """
    from redis import exceptions

    rng = Random(seed)  # noqa: S311 - samples, no secrets
    with suppress(exceptions.ConnectionError, exceptions.TimeoutError), connect() as client:
        trades = (_Orders(Transitions(client, "orders"), rng), _Emails(Transitions(client, "emails"), rng))
        crews = [_Crew(trade, rng, pace) for trade in trades]
        while not stop.wait(_BEAT_S / pace):
            for crew in crews:
                crew.beat()


def minted(namespace: str, node: int) -> Iterator[bytes]:
    """Mint ids without end, each larger than the last; ``node`` is 0..1023."""
    ms = sequence = 0
    while True:
        last_ms, ms = ms, max(ms, host_ms())
        sequence = 0 if ms > last_ms else sequence + 1
        if sequence.bit_length() > 12:  # noqa: PLR2004 - bits of a sequence; ids then run ahead of the clock
            ms, sequence = ms + 1, 0
        yield bytes(BrandedId(namespace, (ms - EPOCH_MS) << 22 | node << 12 | sequence))


class _Trade(Protocol):
    """What a queue is for: how its jobs come, are claimed and recovered, and what they die of."""

    queue: Transitions

    def produce(self, later_ms: int) -> None: ...

    def claim(self, lease_ms: int) -> list[Claimed]: ...

    def recover(self, *, may_die: bool) -> None: ...

    def error(self) -> str: ...


class _Orders:
    """Flat jobs, each a step of an order, some of them for later; a job that lapses twice is dead."""

    def __init__(self, queue: Transitions, rng: Random) -> None:
        self.queue, self._rng = queue, rng
        self._ids, self._orders = minted("JOB", _NODE), count(_NEXT_ORDER)
        self._usual = max(_LEAST_ORDERS, self._waiting())

    def produce(self, later_ms: int) -> None:
        if _is_crowded(self._rng, self._waiting(), self._usual):
            return
        job, payload = next(self._ids), order_payload(self._rng, next(self._orders))
        if self._rng.random() < _LATER:
            self.queue.enqueue_in(job, payload, later_ms)
        else:
            self.queue.enqueue(job, payload)

    def claim(self, lease_ms: int) -> list[Claimed]:
        job = self.queue.claim(lease_ms)
        return [job] if job else []

    def recover(self, *, may_die: bool) -> None:
        if may_die and self._rng.random() < _SWEPT:
            self.queue.sweep_stalled(max_stalled=2)
        else:
            self.queue.reap()

    def error(self) -> str:
        return error_text(self._rng, self._rng.choices([*ERRORS], [*ERRORS.values()])[0])

    def _waiting(self) -> int:
        return int(self.queue.client.zcard(self.queue.keys.pending))


class _Emails:
    """A lane a tenant, the oldest tenant the busiest."""

    def __init__(self, queue: Transitions, rng: Random) -> None:
        self.queue, self._rng = queue, rng
        self._ids, tenants = minted("JOB", _NODE), minted("TEN", _NODE)
        known = sorted(self._tenants())
        known += [next(tenants) for _ in range(_LANES - len(known))]
        self._usual = {tenant: max(_LEAST_EMAILS, self._waiting(tenant)) for tenant in known}
        self._shares = [1 / (nth + 2) for nth in range(len(known))]

    def produce(self, later_ms: int) -> None:  # noqa: ARG002 - e-mails are for now
        tenant = self._rng.choices([*self._usual], self._shares)[0]
        if not _is_crowded(self._rng, self._waiting(tenant), self._usual[tenant]):
            self.queue.lane_enqueue(tenant, next(self._ids), email_payload(self._rng))

    def claim(self, lease_ms: int) -> list[Claimed]:
        if self._rng.random() < _WEIGHTED:
            return self.queue.lane_wclaim(lease_ms)
        job = self.queue.lane_claim(lease_ms)
        return [job] if job else []

    def recover(self, *, may_die: bool) -> None:  # noqa: ARG002 - a sweep would leave lanes off the ring (H16)
        self.queue.reap()

    def error(self) -> str:
        return error_text(self._rng, self._rng.choice(_BOUNCES))

    def _tenants(self) -> set[bytes]:
        client, keys = self.queue.client, self.queue.keys
        named = {*client.lrange(keys.fixed("ring"), 0, -1), *client.smembers(keys.fixed("paused"))}
        named.update(client.hkeys(keys.fixed("gactive")), client.hkeys(keys.fixed("glimit")))
        return {tenant for tenant in named if branded.is_branded(tenant)}

    def _waiting(self, tenant: bytes) -> int:
        return int(self.queue.client.zcard(self.queue.keys.lane(branded.parse(tenant))))


@dataclass
class _Run:
    """A job in a worker's hands; only a long one has a ``renewal_s``, when its lease is due to be renewed."""

    job: Claimed
    ends_s: float
    renewal_s: float | None


class _Crew:
    """The producer, the workers and the metronome of one queue."""

    def __init__(self, trade: _Trade, rng: Random, pace: float) -> None:
        from redis.exceptions import ResponseError

        self._trade, self._queue, self._rng, self._pace = trade, trade.queue, rng, pace
        self._runs: list[_Run] = []
        self._most_dead = self._dead() + _MORE_DEAD
        # What a worker dies of, to be replaced at once: an operator was faster, a row or a member is broken.
        self._mishaps = suppress(Rejected, Malformed, ResponseError)

    def beat(self) -> None:
        """Give everyone a turn. Leases are renewed before lapsed ones are looked for, whatever time has passed."""
        now_s = self._now_s()
        for run in [run for run in self._runs if run.ends_s <= now_s]:
            self._runs.remove(run)
            with self._mishaps:
                self._settle(run)
        for run in self._runs:
            if run.renewal_s is not None and run.renewal_s <= now_s:
                run.renewal_s = now_s + _RENEWAL_S
                with self._mishaps:
                    self._renew(run)
        for turn in (self._tick, self._produce, self._claim):
            with self._mishaps:
                turn()

    def _settle(self, run: _Run) -> None:
        job, is_last = run.job, run.job.token >= _MAX_ATTEMPTS
        if run.renewal_s is not None:
            self._queue.untrack_lock(job.id)
        fails = self._rng.random() < (_FAILS if job.token == 1 else _FAILS_AGAIN)
        if not fails or (is_last and not self._may_die()):
            self._queue.complete(job.id, job.token)
            return
        error = self._trade.error()
        if is_last:  # the log of a job that completes would stay behind (H26)
            self._queue.add_log(job.id, f"attempt {job.token}: giving up")
        self._queue.retry(job.id, job.token, self._ms(*_RETRY_S), _MAX_ATTEMPTS, error)

    def _renew(self, run: _Run) -> None:
        if self._queue.client.zscore(self._queue.keys.active, run.job.id) is None:
            raise Rejected("lapsed")  # a beat would put it back beside where it waits (H12)
        left = max(run.ends_s - self._now_s(), 0) / _LONG_S[1]
        self._queue.extend_lock(run.job.id, run.job.token, self._ms(_LEASE_S))
        self._queue.track_lock(run.job.id, run.job.token, self._ms(2 * _LEASE_S))
        self._queue.update_progress(run.job.id, f"{round(100 * (1 - left))} %")

    def _tick(self) -> None:
        self._queue.promote()
        self._trade.recover(may_die=self._may_die())

    def _produce(self) -> None:
        if self._rng.random() < _COMES:
            self._trade.produce(self._ms(*_LATER_S))

    def _claim(self) -> None:
        if len(self._runs) >= _WORKERS:
            return
        for job in self._trade.claim(self._ms(_LEASE_S)):
            is_long = self._rng.random() < _LONG
            ends_s = self._now_s() + self._rng.uniform(*(_LONG_S if is_long else _SHORT_S))
            if self._rng.random() >= _LAPSES:
                self._runs.append(_Run(job, ends_s, self._now_s() if is_long else None))

    def _may_die(self) -> bool:
        return self._dead() < self._most_dead

    def _dead(self) -> int:
        return int(self._queue.client.zcard(self._queue.keys.dead))

    def _now_s(self) -> float:
        return host_ms() / 1000 * self._pace

    def _ms(self, least_s: float, most_s: float | None = None) -> int:
        """Turn seconds of the demo, or some between two, into ms of the clock."""
        return round(1000 / self._pace * (least_s if most_s is None else self._rng.uniform(least_s, most_s)))


def _is_crowded(rng: Random, waiting: int, usual: int) -> bool:
    """Tell whether a producer holds back: never at half the usual, always at one and a half times the usual."""
    return rng.random() > 1.5 - waiting / usual
