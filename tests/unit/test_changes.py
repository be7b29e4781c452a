"""The account of a batch, and how jobs become batches; no server."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from emqctl import repeats
from emqctl.branded import BrandedId
from emqctl.changes import BATCH, Change, Outcome, Pace, Tally, apply, named
from emqctl.cli import exit_codes
from emqctl.errors import Denied, NoAnswer, Refused, Unreachable
from emqctl.keyspace import QueueKeys
from emqctl.replies import NeedsProbe
from emqctl.scripts import Program
from emqctl.selection import Target

IDS = [bytes(BrandedId("JOB", nth << 22)) for nth in range(1, 501)]


def outcome(result: str = "moved", reason: str | None = None, **fields: Any) -> Outcome:
    return Outcome(IDS[0], result, reason, **fields)


MOVED, LEFT = outcome(), outcome("skipped", "not-dead", left=True)
MISSING, LOCKED, LOST = outcome("skipped", "missing"), outcome("skipped", "locked"), outcome("failed", "no-answer")


@pytest.mark.parametrize(
    ("outcomes", "code"),
    [
        ([], 0),
        ([MOVED], 0),
        ([MOVED, MOVED], 0),
        ([outcome("would-move")], 0),
        ([LEFT], 0),
        ([LEFT, MOVED], 0),
        ([MOVED, LOCKED], 3),
        ([MOVED, MISSING], 3),
        ([outcome("would-move"), outcome("would-skip", "locked")], 3),
        ([MOVED, LOCKED, LEFT], 3),
        ([MOVED, outcome("skipped", "duplicate")], 3),
        ([outcome("skipped", "already")], 0),
        ([outcome("skipped", "same-lane"), MOVED], 0),
        ([outcome("skipped", "same"), LOCKED], 3),
        ([outcome("skipped", "already"), MISSING], 3),
        ([outcome("removed")], 0),
        ([outcome("edited")], 0),
        ([MISSING], 4),
        ([MISSING, MISSING], 4),
        ([MISSING, LEFT], 4),
        ([LOCKED], 5),
        ([LOCKED, MISSING], 5),
        ([LOCKED, LEFT], 5),
        ([outcome("skipped", "malformed")], 5),
        ([outcome("skipped", "not-dead")], 5),
        ([outcome("would-skip", "missing")], 4),
        ([LOST], 5),
    ],
)
def test_the_exit_code_follows_from_what_was_done_and_why_not(outcomes: list[Outcome], code: int) -> None:
    tally = Tally()
    for each in outcomes:
        tally.add(each)
    assert exit_codes.VERDICTS[tally.verdict] == code


def test_the_order_of_outcomes_changes_no_verdict() -> None:
    kinds = (MOVED, LEFT, MISSING, LOCKED)
    for chosen in product([False, True], repeat=4):
        some = [kind for kind, is_in in zip(kinds, chosen, strict=True) if is_in]
        verdicts = set()
        for order in (some, some[::-1]):
            tally = Tally()
            for each in order:
                tally.add(each)
            verdicts.add(tally.verdict)
        done, _, missing, locked = chosen
        refused = "missing" if missing and not locked else "refused"
        assert verdicts == {"done" if not (missing or locked) else "partly" if done else refused}


def test_the_account_counts_reasons_notes_and_spent_attempts() -> None:
    tally = Tally()
    for each in (
        outcome(attempts=2, notes=("lane-paused",)),
        outcome(attempts=3, notes=("lane-paused", "fenced")),
        outcome(attempts=12),
        outcome(attempts=None),
        outcome("skipped", "locked", attempts=40, notes=("x",)),
        LEFT,
    ):
        tally.add(each)
    assert (tally.done, tally.left, tally.worn, tally.attempts) == (4, 1, 2, 12)
    assert tally.undone == {"locked": 1}
    assert tally.notes == {"lane-paused": 2, "fenced": 1}


# Ids given one by one


def test_ids_come_in_order_in_batches_read_as_they_are_needed() -> None:
    taken = []

    def words() -> Iterator[bytes]:
        for word in IDS:
            taken.append(word)
            yield word

    batches = named(words())
    assert next(batches) == [Target(word) for word in IDS[:BATCH]]
    assert len(taken) == BATCH
    assert [len(batch) for batch in batches] == [BATCH] * (len(IDS) // BATCH - 1)


def test_a_repeat_is_one_whatever_batch_it_is_in() -> None:
    words = [*IDS[:150], IDS[0], IDS[149], IDS[150]]
    flat = [item for batch in named(words) for item in batch]
    assert [item.id for item in flat] == words
    assert [nth for nth, item in enumerate(flat) if isinstance(item, Outcome)] == [150, 151]
    assert flat[150] == Outcome(IDS[0], "skipped", "duplicate")


def test_a_repeat_is_one_however_many_ids_come_between(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "IN_MEMORY", 10)
    words = [*IDS[:60], IDS[0], IDS[30], IDS[59], IDS[60]]
    flat = [item for batch in named(words) for item in batch]
    assert [item.id for item in flat] == words
    assert [nth for nth, item in enumerate(flat) if isinstance(item, Outcome)] == [60, 61, 62]


def test_a_repeat_is_one_where_python_was_built_without_sqlite(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(repeats, "IN_MEMORY", 10)
    monkeypatch.setitem(sys.modules, "sqlite3", None)
    words = [*IDS[:60], IDS[59]]
    flat = [item for batch in named(words) for item in batch]
    assert [nth for nth, item in enumerate(flat) if isinstance(item, Outcome)] == [60]


def test_ids_that_cannot_be_remembered_end_the_run_before_they_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(repeats, "IN_MEMORY", BATCH)
    monkeypatch.setattr("sqlite3.connect", Mock(side_effect=sqlite3.OperationalError("database or disk is full")))
    stub = Stub()
    outcomes, error = collected(stub, named(IDS[: 2 * BATCH]))
    assert isinstance(error, Refused)
    assert "disk is full" in str(error)
    assert [each.id for each in outcomes] == IDS[:BATCH]
    assert len(stub.calls) == 1


@pytest.mark.parametrize(
    "word",
    [
        *(b"", b"garbage", b"JOB1", IDS[0] + b"0", IDS[0][:-1], b"EVT" + IDS[0][3:], b"job" + IDS[0][3:]),
        *(b"JOBzzzzzzzzzzz", b"JOB0NgWEfAEJf\n", b"JOB0NgWEfAEJf\xff", b"JOB0NgWEfAEJ:f", "JOB0NgWEfAEJé".encode()),
    ],
)
def test_what_is_no_job_id_is_malformed_and_never_asked_for(word: bytes) -> None:
    assert list(named([word, IDS[0], word])) == [
        [Outcome(word, "skipped", "malformed"), Target(IDS[0]), Outcome(word, "skipped", "malformed")]
    ]


# Batches, with a server that answers from a list

Answer = list[bytes]


class Stub:
    """Answers program calls; keeps what it was called with."""

    shown = "redis://stub/0"

    def __init__(self, *replies: Any) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.probed: list[Any] = []
        self._replies = list(replies)

    def run(self, program: Program, keys: Sequence[bytes], arguments: Sequence[Any]) -> list[Answer]:
        """Answer the next reply, by default that everything was moved."""
        self.calls.append((program.name, keys, arguments))
        reply = self._replies.pop(0) if self._replies else None
        if isinstance(reply, Exception):
            raise reply
        return reply or [answer()] * len(arguments[1::3])

    def may_run(self, commands: Sequence[Any]) -> None:
        """Allow everything."""
        self.probed.append(commands)


def answer(result: bytes = b"moved", reason: bytes = b"", place: bytes = b"dead", *notes: bytes) -> Answer:
    return [result, reason, place, b"pending" if result == b"moved" else place, b"", b"1", *notes]


def change(*, dry_run: bool = False) -> Change:
    keys = QueueKeys("q")
    letters = "d" if dry_run else ""
    return Change(Program("p", "return 1"), ("dead",), ("not-dead",), keys.dead, letters, [("W",)], dry_run=dry_run)


def run(stub: Stub, pages: Sequence[Sequence[Any]], pace: Pace | None = None, **of: Any) -> list[list[Outcome]]:
    queue: Any = SimpleNamespace(server=stub, keys=QueueKeys("q"), name="q")
    return list(apply(queue, change(**of), pages, pace or Pace()))


def targets(count: int) -> list[Target]:
    return [Target(word) for word in IDS[:count]]


@pytest.mark.parametrize(("size", "calls"), [(1, [1]), (25, [25]), (26, [25, 1]), (60, [25, 25, 10])])
def test_a_call_handles_at_most_25(size: int, calls: list[int]) -> None:
    stub = Stub()
    batches = run(stub, [targets(size)])
    assert [len(arguments) for _, _, arguments in stub.calls] == [1 + 3 * jobs for jobs in calls]
    assert [len(batch) for batch in batches] == calls
    assert [each.id for batch in batches for each in batch] == IDS[:size]
    assert {keys for _, keys, _ in stub.calls} == {(b"emq:{q}:", b"emq:{q}:dead")}


def test_each_batch_is_begun_before_it_is_sent_and_an_empty_page_is_none() -> None:
    begun: list[int] = []
    stub = Stub()
    assert run(stub, [[]], Pace(begin=lambda *_: begun.append(len(stub.calls)))) == [[]]
    assert begun == []
    run(stub, [targets(3), targets(2)], Pace(batch=2, begin=lambda *_: begun.append(len(stub.calls))))
    assert begun == [0, 1, 2]


def test_what_needs_no_call_makes_none_and_keeps_its_place() -> None:
    bad = Outcome(b"x", "skipped", "malformed")
    stub = Stub()
    [only] = run(stub, [[bad, bad]])
    assert only == [bad, bad]
    assert stub.calls == []
    [mixed] = run(stub, [[Target(IDS[0]), bad, Target(IDS[1])]])
    assert [each.id for each in mixed] == [IDS[0], b"x", IDS[1]]


@pytest.mark.parametrize(
    ("reason", "place", "left"),
    [
        (b"not-dead", b"pending", True),
        (b"not-dead", b"none", True),
        (b"missing", b"none", True),
        (b"missing", b"dead", False),  # still a member, without a row
        (b"locked", b"dead", False),
        (b"changed", b"dead", False),
        (b"two-places", b"pending", False),
        (b"not-active", b"pending", False),  # of another change
    ],
)
def test_in_a_walk_a_job_that_is_no_longer_there_left_the_set(reason: bytes, place: bytes, left: bool) -> None:  # noqa: FBT001
    reply = [answer(b"skipped", reason, place)]
    [[walked]] = run(Stub(reply), [targets(1)], Pace(walked=True))
    [[given]] = run(Stub(reply), [targets(1)], Pace(walked=False))
    assert (walked.left, given.left) == (left, False)


def test_a_dry_run_says_would() -> None:
    reply = [answer(), answer(b"skipped", b"locked"), answer(b"failed", b"denied")]
    stub = Stub(reply)
    with pytest.raises(Denied):
        run(stub, [targets(3)], dry_run=True)
    stub = Stub(reply[:2])
    [outcomes] = run(stub, [targets(2)], dry_run=True)
    assert [each.result for each in outcomes] == ["would-move", "would-skip"]
    assert stub.calls[0][2][0] == "d"


def collected(stub: Stub, pages: Iterable[Sequence[Any]]) -> tuple[list[Outcome], Exception | None]:
    queue: Any = SimpleNamespace(server=stub, keys=QueueKeys("q"), name="q")
    outcomes: list[Outcome] = []
    try:
        for batch in apply(queue, change(), pages, Pace()):
            outcomes += batch
    except Exception as error:  # noqa: BLE001 - it is what is looked at
        return outcomes, error
    return outcomes, None


def test_a_lost_answer_ends_the_run_after_saying_which_jobs_it_was_about() -> None:
    bad = Outcome(b"x", "skipped", "malformed")
    stub = Stub([answer()] * BATCH, NoAnswer("gone"))
    outcomes, error = collected(stub, [[*targets(BATCH), bad, *targets(60)[BATCH:]]])
    assert isinstance(error, NoAnswer)
    assert len(stub.calls) == 2
    assert [each.result for each in outcomes] == ["moved"] * BATCH + ["skipped"] + ["failed"] * (BATCH - 1)
    assert {each.reason for each in outcomes[BATCH + 1 :]} == {"no-answer"}


@pytest.mark.parametrize("error", [Refused("x"), Unreachable("x"), Denied("x")])
def test_a_call_that_was_refused_whole_ends_the_run_and_claims_nothing(error: Exception) -> None:
    outcomes, raised = collected(Stub([answer()] * BATCH, error), [targets(60)])
    assert raised is error
    assert len(outcomes) == BATCH


def test_a_denied_job_ends_the_run_with_what_was_denied() -> None:
    denied = answer(b"failed", b"denied", b"dead", b"ZADD emq:{q}:pending")
    outcomes, error = collected(Stub([answer(), denied, answer(b"skipped", b"locked")]), [targets(3), targets(5)])
    assert isinstance(error, Denied)
    assert str(error) == "redis://stub/0 denied ZADD emq:{q}:pending to this user"
    assert [each.result for each in outcomes] == ["moved", "failed", "skipped"]


def test_a_server_that_cannot_tell_permissions_is_probed_once() -> None:
    stub = Stub(NeedsProbe("x"))
    run(stub, [targets(60)])
    assert [arguments[0] for _, _, arguments in stub.calls] == ["", "p", "p", "p"]
    assert stub.probed == [[("W",)]]


@pytest.mark.parametrize("attempts", ["²", "٣", "9" * 5000, "-1", "", "1.5", "1e3"])
def test_attempts_that_are_no_count_are_none(attempts: str) -> None:
    """Whatever stands in a row, an answer about it can be read."""
    reply = [[b"skipped", b"bad-row", b"dead", b"dead", b"", attempts.encode()]]
    [[one]] = run(Stub(reply), [targets(1)])
    assert one.attempts is None


def test_texts_of_an_answer_that_are_not_utf8_come_through() -> None:
    [[one]] = run(Stub([[b"skipped", b"bad-row", b"dead", b"dead", b"\xff", b"\xff"]]), [targets(1)])
    assert one.lane == "\udcff"
