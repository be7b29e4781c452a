"""Changing jobs in batches: one program a batch, one answer a job, nothing ever sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice

from emqctl import branded
from emqctl.errors import Denied, Malformed, NoAnswer
from emqctl.keyspace import QueueKeys, decode
from emqctl.numbers import count
from emqctl.queues import Queue
from emqctl.repeats import Repeats
from emqctl.replies import Command, NeedsProbe
from emqctl.scripts import Program
from emqctl.selection import Target

BATCH = 25  # jobs a program handles in one call: 0.5 ms with all checks, where 100 take 1.5 (tests/bench)
USUAL_BUDGET = 3  # attempts EchoMQ's workers allow by default; what they really allow stands nowhere in Redis
DONE = ("moved", "removed", "edited", "would-move", "would-remove", "would-edit")
WOULD = {"moved": "would-move", "removed": "would-remove", "edited": "would-edit", "skipped": "would-skip"}
#: Keys of a queue whose types every change looks at.
OWN = (
    *("pending", "active", "schedule", "dead"),
    *("ring", "wake", "paused", "gactive", "glimit", "gweight", "meta"),
)
SO_ALREADY = ("already", "same", "same-lane")  # what was so already counts as done


@dataclass(frozen=True)
class Outcome:
    """What became of one job, or of a queue or lane (``id`` None).

    ``attempts`` are those it had; ``left`` tells that it left the walked set meanwhile.
    """

    id: bytes | None
    result: str
    reason: str | None = None
    place_before: str | None = None
    place_after: str | None = None
    lane: str | None = None
    notes: tuple[str, ...] = ()
    attempts: int | None = None
    left: bool = False

    @property
    def is_done(self) -> bool:
        """Whether the change was made, or would be."""
        return self.result in DONE

    @property
    def was_so(self) -> bool:
        """Whether there was nothing to change, because things are as they were asked for."""
        return self.reason in SO_ALREADY


COLUMNS = ("id", "result", "reason", "place_before", "place_after", "lane", "notes")


@dataclass
class Tally:
    """The account of a run: how many were done, were so already, had left meanwhile, or were not done and why.

    ``notes`` counts what was said of those that were done, ``worn`` those of them that had spent
    ``USUAL_BUDGET`` attempts or more, ``attempts`` the most that one had spent.
    """

    done: int = 0
    already: int = 0
    left: int = 0
    undone: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    worn: int = 0
    attempts: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count one outcome."""
        if outcome.is_done:
            self.done += 1
            self.notes.update(outcome.notes)
            self.attempts = max(self.attempts, outcome.attempts or 0)
            self.worn += (outcome.attempts or 0) >= USUAL_BUDGET
        elif outcome.was_so:
            self.already += 1
        elif outcome.left:
            self.left += 1
        else:
            self.undone[outcome.reason or outcome.result] += 1

    @property
    def verdict(self) -> str:
        """Tell how the run went.

        ========================================  =========
        nothing selected, or all done             done
        some done, some not                       partly
        none done, every reason ``missing``       missing
        none done, any other reason               refused
        ========================================  =========

        What was so already counts as done; ids that left the walked set meanwhile do not count.
        """
        if not self.undone:
            return "done"
        if self.done or self.already:
            return "partly"
        return "missing" if set(self.undone) == {"missing"} else "refused"


@dataclass(frozen=True)
class Change:
    """A change of jobs: the program, and how to ask it.

    ``left`` are the reasons by which a walked job turns out to have left the set meanwhile, ``home`` the
    places that are that set. ``leading`` are the program's arguments before those of the jobs, of which
    ``arguments`` makes three from a target. ``writes`` are commands of the kinds the program sends, for
    servers that can be asked about permissions only outside a program.
    """

    program: Program
    home: tuple[str, ...]
    left: tuple[str, ...]
    key: bytes
    flags: str
    writes: Sequence[Command]
    leading: Sequence[bytes | str] = ()
    arguments: Callable[[Target], Sequence[bytes | str]] = lambda target: (target.id, target.seen, "")
    dry_run: bool = False


def flags(**wanted: bool) -> str:
    """Return the letters of the flags that are wanted, as programs take them."""
    return "".join(letter for letter, is_wanted in wanted.items() if is_wanted)


def usual_looks(keys: QueueKeys, *sets: bytes) -> list[Command]:
    """Return commands of the kinds by which a change of jobs in these sets looks at them and at lanes."""
    row, ring = keys.row(b"JOB00000000000"), keys.fixed("ring")
    return [
        *(("TYPE", key) for key in (row, *map(keys.fixed, OWN))),
        *((name, key, "x") for name in ("ZSCORE", "ZMSCORE") for key in sets),
        *(("HMGET", row, "state"), ("HEXISTS", row, "payload"), ("EXISTS", row), ("GET", row), ("ZCARD", keys.pending)),
        *(("HGET", keys.fixed(counts), "x") for counts in ("gactive", "glimit")),
        *(("SISMEMBER", keys.fixed("paused"), "x"), ("LLEN", ring), ("LRANGE", ring, 0, 1)),
    ]


def usual_writes(keys: QueueKeys, *sets: bytes) -> list[Command]:
    """Return commands of the kinds a move between these sets sends, those that only look first."""
    row, ring, wake, gactive = keys.row(b"JOB00000000000"), *map(keys.fixed, ("ring", "wake", "gactive"))
    return [
        *usual_looks(keys, *sets),
        *(("ZADD", key, 0, "x") for key in sets),
        *(("ZREM", key, "x") for key in sets),
        *(("HSET", row, "state", "x"), ("HDEL", row, "stalled"), ("HINCRBY", row, "attempts", 1)),
        *(("HINCRBY", gactive, "x", 1), ("HDEL", gactive, "x")),
        *(("RPUSH", ring, "x"), ("LREM", ring, 0, "x"), ("LPUSH", wake, "1"), ("LTRIM", wake, 0, 63)),
    ]


def named(ids: Iterable[bytes]) -> Iterator[list[Target | Outcome]]:
    """Yield jobs given one by one in batches, in order; what is no job id, or a repeat, as its outcome."""
    words = iter(ids)
    with closing(Repeats()) as repeats:
        while some := list(islice(words, BATCH)):
            yield [_target(word, repeats) for word in some]


@dataclass(frozen=True)
class Pace:
    """How a run goes through its jobs.

    ``walked`` says that they were met in the set, so that one that is no longer there left it; ``batch``
    is how many one call handles; ``begin`` is called with the ids of each batch before it is sent: from
    then on it has to be accounted for.
    """

    walked: bool = False
    batch: int = BATCH
    begin: Callable[[Sequence[bytes]], None] = lambda _ids: None


def apply(
    queue: Queue, change: Change, pages: Iterable[Sequence[Target | Outcome]], pace: Pace
) -> Iterator[list[Outcome]]:
    """Make a change job by job; yield the outcomes of each batch when it is answered, in order.

    Raises NoAnswer after the outcomes of a batch that may or may not have been applied.
    """
    asking = _Asking(queue, change, walked=pace.walked)
    for page in pages:
        if not page:
            yield []
        for at in range(0, len(page), pace.batch):
            some = page[at : at + pace.batch]
            pace.begin([item.id for item in some if isinstance(item, Target)])
            outcomes, lost = asking.batch(some)
            yield outcomes
            if lost:
                raise lost


def _target(word: bytes, repeats: Repeats) -> Target | Outcome:
    try:
        branded.parse_job(word)
    except Malformed:
        return Outcome(word, "skipped", "malformed")
    return Outcome(word, "skipped", "duplicate") if repeats.has(word) else Target(word)


class _Asking:
    """Calling a change's program for one batch after another."""

    def __init__(self, queue: Queue, change: Change, *, walked: bool) -> None:
        self._queue = queue
        self._change = change
        self._flags = change.flags
        self._gone = {"missing", *change.left} if walked else set()

    def batch(self, items: Sequence[Target | Outcome]) -> tuple[list[Outcome], Exception | None]:
        """Return the outcomes of a batch, and the error that ends the run after it."""
        targets = [item for item in items if isinstance(item, Target)]
        lost: Exception | None = None
        try:
            made = iter(self._call(targets) if targets else ())
        except NoAnswer as error:
            lost = self._open_end(error, targets)
            made = iter(Outcome(target.id, "failed", "no-answer") for target in targets)
        outcomes = [item if isinstance(item, Outcome) else next(made) for item in items]
        denied = next((each for each in outcomes if each.reason == "denied"), None)
        if denied:
            lost = Denied(f"{self._queue.server.shown} denied {' '.join(denied.notes)} to this user")
        return outcomes, lost

    def _open_end(self, error: NoAnswer, targets: Sequence[Target]) -> NoAnswer:
        jobs = f"{len(targets)} job{'' if len(targets) == 1 else 's'}"
        hint = (
            "run the same command again, what was done is skipped; "
            f"or look at one: emqctl inspect {self._queue.name} {decode(targets[0].id)}"
        )
        return NoAnswer(f"{error}; {jobs} may or may not have been changed", hint=hint)

    def _call(self, targets: Sequence[Target]) -> list[Outcome]:
        change, server = self._change, self._queue.server
        arguments = [*change.leading, *(word for target in targets for word in change.arguments(target))]
        keys = (self._queue.keys.prefix, change.key)
        try:
            answers = server.run(change.program, keys, (self._flags, *arguments))
        except NeedsProbe:
            server.may_run(change.writes)
            self._flags += "p"
            answers = server.run(change.program, keys, (self._flags, *arguments))
        return [self._outcome(target, answer) for target, answer in zip(targets, answers, strict=True)]

    def _outcome(self, target: Target, answer: Sequence[bytes]) -> Outcome:
        result, reason, before, after, lane, _, *notes = map(decode, answer)
        return Outcome(
            target.id,
            WOULD.get(result, result) if self._change.dry_run else result,
            reason or None,
            before,
            after,
            lane or None,
            tuple(notes),
            count(answer[5]),
            left=reason in self._gone and before not in self._change.home,
        )
