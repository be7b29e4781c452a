"""Whole errors as handlers raise them: traces, bodies of answers, ids of every make; and hostile ones."""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emqctl.folding import fold, group_of

FRAMES = "\n".join(
    f'  File "/srv/app/{name}.py", line {nth * 7 + 3}, in {name}\n    {name}(order)'
    for nth, name in enumerate("abcdefgh")
)
ELIXIR = (
    "\n\n    (ecto 3.11.1) lib/ecto/repo/schema.ex:952: Ecto.Repo.Schema.apply/4\n    (stdlib 5.2) timer.erl:270: :tc/2"
)
JAVA = "\n".join(f"\tat com.shop.pay.Pay{nth}.run(Pay{nth}.java:{nth + 40})" for nth in range(60))

#: A failure as a template -> what is said of one occurrence of it.
FAMILIES: dict[str, tuple[str, Callable[[random.Random], tuple[object, ...]]]] = {
    "python trace": (
        "Traceback (most recent call last):\n" + FRAMES + "\nKeyError: '{}'",
        lambda rng: (rng.randrange(10**9),),
    ),
    "python trace, windows line ends": (
        ("Traceback (most recent call last):\n" + FRAMES + "\nValueError: amount must be > 0, got {}").replace(
            "\n", "\r\n"
        ),
        lambda rng: (rng.choice((-1, 5, -17, 0.5)),),
    ),
    "elixir trace": (
        "** (Ecto.StaleEntryError) attempted to update a stale struct:\n\n%Shop.Order{{id: {}, total: #Decimal<{}>}}"
        + ELIXIR,
        lambda rng: (rng.randrange(10**6), rng.choice(("12.50", "7", "1200.00"))),
    ),
    "elixir exit": (
        "exit: {{:timeout, {{GenServer, :call, [#PID<0.{}.0>, {{:charge, {}}}, {}]}}}}",
        lambda rng: (rng.randrange(50_000), rng.randrange(10**6), rng.choice((5000, 15_000))),
    ),
    "erlang reference": (
        "no reply to #Reference<0.{}.{}.{}>",
        lambda rng: tuple(rng.choice((7, 255, 2**20)) for _ in "abc"),
    ),
    "java trace with a cause": (
        "java.lang.IllegalStateException: order {} is closed\n"
        + JAVA
        + "\nCaused by: java.net.SocketTimeoutException: connect timed out after {} ms\n\t... {} more",
        lambda rng: (rng.randrange(10**8), rng.randrange(10**5), rng.randrange(100)),
    ),
    "java object": ("cannot cast com.shop.Order@{:x} to com.shop.Refund", lambda rng: (rng.randrange(2**28, 2**31),)),
    "json body": (
        'answered 402: {{"code":402,"message":"{}","id":"{:032x}","retry":false}}',
        lambda rng: (rng.choice(("Payment required", "Card expired")), rng.getrandbits(128)),
    ),
    "json inside json": (
        'upstream said "{{\\"error\\":\\"no customer {}\\",\\"trace\\":\\"{:x}\\"}}"',
        lambda rng: (rng.randrange(10**6), rng.getrandbits(64)),
    ),
    "hex request ids": ("upstream 503 from payments-gw (request req-{:04x})", lambda rng: (rng.randrange(2**16),)),
    "hex ids of eight": (
        "session {:08x} expired",
        lambda rng: (rng.choice((0xDEADBEEF, 0xFACEFEED, rng.getrandbits(32))),),
    ),
    "ulids": ("no cart {}", lambda rng: ("01" + "".join(rng.choices("0123456789ABCDEFGHJKMNPQRSTVWXYZ", k=24)),)),
    "durations": ("gave up after {}", lambda rng: (rng.choice(("5ms", "1.5s", "1m30s", "250us")),)),
    "times": (
        "lease ended at {}",
        lambda rng: (rng.choice(("2026-01-27T15:11:37.641Z", "2026-11-30 18:00:00+02:00", "2025-02-03T04:05Z")),),
    ),
    "ipv6 and ipv4": (
        "dial {}: refused",
        lambda rng: (rng.choice(("[2001:db8::7]:443", "10.0.0.7:443", "2001:db8::7", "::1", "10.1.2.3")),),
    ),
    "mac addresses": ("no lease for {}", lambda rng: (rng.choice(("aa:bb:cc:dd:ee:ff", "01:23:45:67:89:ab")),)),
    "typographic quotes": ("kein Konto „{}“ gefunden", lambda rng: (rng.choice(("Müller", "J. O'Neill", "株式会社")),)),
    "windows paths": ("cannot open {}: access denied", lambda rng: (rng.choice((r"C:\data\in\7.csv", r"D:\x.txt")),)),
    "routes": ("POST {} gave 500", lambda rng: (rng.choice(("/v1/orders/17?retry=1", "/v1/orders/4711")),)),
    "lists of ids": (
        "ids [{}] are gone",
        lambda rng: (", ".join(str(rng.randrange(999)) for _ in range(rng.randrange(1, 9))),),
    ),
    "lists of names": ("unknown keys {}", lambda rng: (", ".join(f"'{c}'" for c in rng.choice(("a", "bc", "def"))),)),
    "branded ids": (
        "parent {} is gone",
        lambda rng: (rng.choice(("JOB0NgWEfAEJfs", "JOB00000000000", "ORD0KHTOWnGLuC")),),
    ),
    "sizes in front of a text of 64 KB": ("{} bytes: " + "too long, " * 6500, lambda rng: (rng.randrange(10**6),)),
    "a quote that is longer than what is looked at": (
        'cannot parse "{}" as json',
        lambda rng: ("".join(rng.choices("abcdefgh ", k=9000)),),
    ),
}


@pytest.mark.parametrize(("template", "said"), FAMILIES.values(), ids=FAMILIES)
def test_a_family_is_one_group(template: str, said: Callable[[random.Random], tuple[object, ...]]) -> None:
    rng = random.Random(template)
    groups = {group_of(template.format(*said(rng)).encode()) for _ in range(300)}
    assert len(groups) == 1, {fold(template.format(*said(rng)).encode())[:300] for _ in range(300)}


def test_every_family_is_a_group_of_its_own() -> None:
    rng = random.Random(1)
    groups = [group_of(template.format(*said(rng)).encode()) for template, said in FAMILIES.values()]
    assert len(set(groups)) == len(FAMILIES)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Http2Exception: reset", "Log4jException: reset"),
        ("order_7 is gone", "user_7 is gone"),
        ("order7 is gone", "user7 is gone"),
        ('{"code":1}', '{"count":1}'),
        ("{'code': 1}", "{'count': 1}"),
        ("std::dead", "std::feed"),
        ("boom\n" + JAVA + "\nCaused by: a.B: refused", "boom\n" + JAVA + "\nCaused by: a.B: reset"),
        ("x" * 5000 + " a", "y" * 5000 + " a"),
    ],
    ids=lambda text: text[:20],
)
def test_what_tells_failures_apart_is_kept(one: str, other: str) -> None:
    assert group_of(one.encode()) != group_of(other.encode())


def test_the_order_in_which_errors_come_does_not_matter() -> None:
    """Lines are remembered from one error to the next; what is remembered must be what is folded."""
    rng = random.Random(2)
    texts = [template.format(*said(rng)).encode() for template, said in FAMILIES.values() for _ in range(20)]
    before = [group_of(text) for text in texts]
    shuffled = list(enumerate(texts))
    rng.shuffle(shuffled)
    assert all(group_of(text) == before[nth] for nth, text in shuffled)


@given(st.binary(max_size=600))
def test_folding_takes_any_bytes_and_leaves_few(error: bytes) -> None:
    folded = fold(error)
    assert len(folded) <= 4096
    assert not any(byte in b"0123456789" for byte in folded)
    assert fold(error + b"\r\n") == folded


HOSTILE = [
    *(
        '"',
        "'",
        "`",
        '\\"',
        '"\\',
        "\\",
        "{",
        '{"',
        ",'",
        "„",
        "«",
        "#A<",
        "#",
        "://",
        "a://",
        "a.",
        "@",
        "a@",
        "a-",
        "a@a.",
    ),
    *(
        "2026-11-30",
        "0-00",
        "1:",
        "a:",
        "::",
        ":a:",
        "[::",
        "1.",
        "1.1.1.",
        "/",
        "/a",
        "~/",
        "../",
        "C:\\",
        "A",
        "a",
        "aB3",
        "a1",
    ),
    *(
        "f0",
        "0x",
        "f",
        "-ab",
        "=abcd",
        "1,",
        "1, ",
        "<n>",
        "<n>,",
        '"x",',
        "+",
        "-",
        "- ",
        " ",
        "\t ",
        "\x00",
        "\xff",
        "é",
        "\u2028",
    ),
]


@pytest.mark.parametrize("unit", HOSTILE)
@pytest.mark.parametrize("line", [65_536, 4000], ids=["one line", "lines"])
def test_64_kb_of_anything_are_folded_in_a_blink(unit: str, line: int) -> None:
    """Alone, between letters, and in many lines no two of which are the same, so that none is remembered."""
    for text in (unit, f"x{unit}", f"{unit} y"):
        row = text.encode() * (line // len(text.encode()))
        error = b"\n".join(b"%d" % nth + row for nth in range(65_536 // line))
        began = time.process_time()
        fold(error)
        assert time.process_time() - began < 0.15


@settings(max_examples=40)
@given(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=6))
def test_64_kb_of_any_mixture_are_folded_in_a_blink(units: list[str]) -> None:
    row = "".join(units).encode()
    error = (row * 65_536)[:65_536]
    began = time.process_time()
    fold(error)
    assert time.process_time() - began < 0.15


def test_what_is_remembered_stays_small() -> None:
    tracemalloc.start()
    try:
        for nth in range(2500):
            fold(b"%d %s" % (nth, b"x" * 500))
        for nth in range(250):
            fold(b"%d %s" % (nth, b"x" * 4000))
        assert tracemalloc.get_traced_memory()[0] < 3_000_000
    finally:
        tracemalloc.stop()
