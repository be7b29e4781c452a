"""Error texts that are one group, and those that are not."""

from __future__ import annotations

import re
import time
from collections import Counter

import pytest
import redis
import worlds

from emqctl.folding import fold, group_of
from emqctl.keyspace import QueueKeys

#: Failures that differ in what is said of one occurrence only.
SAME = {
    "numbers": ("took 5 ms", "took 12345 ms"),
    "signs": ("offset -5", "offset +17"),
    "fractions": ("load 0.5", "load 12.75"),
    "clock times": ("at 12:00:01.5", "at 3:07:59"),
    "a port": ("connect to db-primary:5432 failed", "connect to db-primary:6432 failed"),
    "addresses": ("dial 10.0.0.7:443: refused", "dial 192.168.17.250:8443: refused"),
    "an address with and without a port": ("peer 10.0.0.7 left", "peer 10.0.0.7:443 left"),
    "IPv6 in brackets": ("dial [::1]:443", "dial [fe80::1:2]:9000"),
    "uuids": ("job 3f2b8c1e-1111-4222-8333-0123456789ab", "job ffffffff-aaaa-bbbb-cccc-dddddddddddd"),
    "branded ids": ("no order ORD0NgWEfAEJfs", "no order ORD0KHTOWnGLuC"),
    "ids of other kinds": ("no JOB0NgWEfAEJfs", "no USR0KHTOWnGLuC"),
    "hex with 0x": ("at 0x1f", "at 0xDEADBEEF00"),
    "bare hex": ("commit 3f2b8c1", "commit 00ffab99"),
    "request ids": ("(request req-0a1b)", "(request req-ff42)"),
    "request ids that happen to be digits": ("(request req-0a1b)", "(request req-2068)"),
    "double quotes": ('unknown key "a b"', 'unknown key "c"'),
    "single quotes": ("mailbox of 'c-1001' is full", "mailbox of 'anne' is full"),
    "backquotes": ("no column `a`", "no column `b_2`"),
    "empty quotes": ('unknown key ""', 'unknown key "c"'),
    "quotes with an apostrophe before them": ("can't find 'a'", "can't find 'b'"),
    "paths": ("open /var/lib/a.txt: denied", "open /srv/data/7/b.csv: denied"),
    "relative paths": ("open ./a/b.txt: denied", "open ../c.txt: denied"),
    "home paths": ("open ~/a.txt: denied", "open ~/b/c.txt: denied"),
    "urls": ("GET https://a.example/x?q=1 failed", "GET http://b.example:8080/y failed"),
    "mail addresses": ("bounced: anne@example.org", "bounced: b.c+d@mail.example.com"),
    "pids": ("exit in #PID<0.12.0>", "exit in #PID<0.4711.12>"),
    "references": ("#Reference<0.1.2.3>", "#Reference<0.119.2000.30>"),
    "line ends": ("boom\r\n  at f", "boom\n  at f"),
    "blanks": ("boom  now ", "boom now"),
    "a number in front of a long trace": ("took 9 ms\n" + "at f.g\n" * 900, "took 10 ms\n" + "at f.g\n" * 900),
    "a quoted name in front of a long trace": ("no 'a'\n" + "at f.g\n" * 900, "no 'anne-marie'\n" + "at f.g\n" * 900),
}

#: Failures of different kinds.
DIFFERENT = {
    "words": ("connection refused", "connection reset"),
    "one letter": ("timeout in read", "timeout in reads"),
    "case": ("Timeout", "timeout"),
    "what stands around a number": ("took 5 ms", "took 5 rows"),
    "more of them": ("took 5 ms", "took 5 6 ms"),
    "names of fourteen letters": ("XMLHttpRequest failed", "HTTPConnection failed"),
    "upper-case words of fourteen letters": ("INTERNALSERVER down", "AUTHENTICATION down"),
    "words of hex letters": ("feed is stale", "cafe is stale"),
    "what stands around a quote": ("unknown key 'a'", "unknown field 'a'"),
    "contractions": ("can't read, won't write", "can't open, won't write"),
    "exception names": ("(ArgumentError) nil", "(RuntimeError) nil"),
    "functions with another number of arguments": ("undefined f/a", "undefined g/a"),
    "nothing and something": ("", "boom"),
    "the trace below": ("boom\n at f", "boom\n at g"),
    "bytes that are no text": (b"\xff\xfe boom", b"\xff\xfd boom"),
}


def raw(text: str | bytes) -> bytes:
    return text.encode() if isinstance(text, str) else text


@pytest.mark.parametrize(("one", "other"), SAME.values(), ids=SAME)
def test_what_is_said_of_one_occurrence_does_not_part_a_group(one: str, other: str) -> None:
    assert fold(raw(one)) == fold(raw(other))
    assert group_of(raw(one)) == group_of(raw(other))


@pytest.mark.parametrize(("one", "other"), DIFFERENT.values(), ids=DIFFERENT)
def test_failures_of_different_kinds_are_different_groups(one: str | bytes, other: str | bytes) -> None:
    assert fold(raw(one)) != fold(raw(other))
    assert group_of(raw(one)) != group_of(raw(other))


def test_a_group_is_eight_hex_digits_that_stay_the_same_from_version_to_version() -> None:
    assert group_of(b"dial 10.0.0.7:443: connection refused") == "cd1239a0"
    assert re.fullmatch("[0-9a-f]{8}", group_of(b""))


def test_the_four_error_families_of_the_world_are_a_group_each(world: worlds.World, keeper: redis.Redis) -> None:
    keys = QueueKeys("orders")
    errors = [keeper.hget(keys.row(member), "last_error") or b"" for member in keeper.zrange(keys.dead, 0, -1)]
    sizes = {}
    for name in ("dead.family_0", "dead.family_1", "dead.family_2", "dead.family_3"):
        first = keeper.hget(keys.row(world.ids[name]["id"].encode()), "last_error")
        begin = re.escape(re.split(rb"\d", first)[0])
        sizes[name] = Counter(group_of(error) for error in errors if re.match(begin, error))
    assert [len(groups) for groups in sizes.values()] == [1, 1, 1, 1]
    assert [sum(groups.values()) for groups in sizes.values()] == [40, 30, 25, 26]  # one more timed out alike


@pytest.mark.parametrize(
    "text",
    ["a.", "a@", ":[", "[:", "'", '"', "/a", "1.", "+", "f0", "~/", "a-", "a://", "ab0-", "ORD0", "[" + ":" * 4000],
    ids=lambda text: text[:6],
)
def test_no_error_text_takes_long_to_fold(text: str) -> None:
    """A million dead jobs with a hostile error are looked through in minutes, not in days."""
    began = time.process_time()
    fold(text.encode() * 4096)
    assert time.process_time() - began < 0.3
