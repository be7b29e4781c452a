"""Keys: each spelled as the protocol says, and any bytes taken apart without an error."""

import base64
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from emqctl.branded import MAX_SNOWFLAKE, BrandedId, is_branded
from emqctl.branded import parse as parse_id
from emqctl.errors import Malformed
from emqctl.keyspace import (
    EVERY_QUEUE_KEY,
    FIXED,
    JOB_SUBS,
    NAMED,
    RESERVE_UNITS,
    SEEN_BY,
    VERSION_KEY,
    KeyName,
    QueueKeys,
    build,
    build_reserve,
    check_queue,
    decode,
    encode,
    in_grammar,
    parse,
    place_of,
    sort_suffix,
    split,
)
from emqctl.slots import slot_of

DATA = Path(__file__).parent.parent / "data"
WORLD: dict[str, Any] = json.loads((DATA / "world.json").read_text(encoding="utf-8"))
EXPECTED: dict[str, Any] = json.loads((DATA / "world_ids.json").read_text(encoding="utf-8"))

JOB, LANE = "JOB0Nb1VTbfnu4", "PRT0NgWEfAEJfs"
Words = tuple[str, str | None, str | None]

WORDS_ALONE = (
    *("pending", "active", "schedule", "dead", "ring", "paused", "gactive", "glimit", "gweight", "wake", "meta"),
    *("limiter", "repeat", "events", "flow:outbox", "metrics:completed", "metrics:failed"),
    *("metrics:completed:data", "metrics:failed:data"),
)

#: protocol.md 1.2 and cli.md 2: words, suffix.
SPELLED: list[tuple[Words, str]] = [
    *(((word, None, None), word) for word in WORDS_ALONE),
    (("job", JOB, None), f"job:{JOB}"),
    (("job", LANE, None), f"job:{LANE}"),  # a well-formed id of any kind, as the protocol's builder
    (("job", JOB, "lock"), f"job:{JOB}:lock"),
    (("job", JOB, "logs"), f"job:{JOB}:logs"),
    (("job", JOB, "dependencies"), f"job:{JOB}:dependencies"),
    (("job", JOB, "processed"), f"job:{JOB}:processed"),
    (("job", JOB, "failed"), f"job:{JOB}:failed"),
    (("job", JOB, "unsuccessful"), f"job:{JOB}:unsuccessful"),
    (("lane", LANE, None), f"g:{LANE}:pending"),
    (("dedup", "order-99", None), "de:order-99"),
    (("dedup", "A.z_0-" + "x" * 249, None), "de:A.z_0-" + "x" * 249),
    (("repeat", "daily", None), "repeat:daily"),
    (("repeat", "naïve name/with:colon \x1b[31m\n\udcff", None), "repeat:naïve name/with:colon \x1b[31m\n\udcff"),
    (("stream", "logins", None), "stream:logins"),
    (("stream", "logins", "archived"), "stream:logins:archived"),
    (("stream", "a:archived:b", "archived"), "stream:a:archived:b:archived"),
    (("stream", "archived", None), "stream:archived"),
]

UNBUILDABLE: list[tuple[tuple[str | None, ...], str]] = [
    (("",), "'' is not a key type"),
    (("wait",), "'wait' is not a key type: known are pending active"),
    (("Pending",), "'Pending' is not a key type"),
    (("pending ",), "'pending ' is not a key type"),
    (("wait", "x"), "'wait' is not a key type"),
    (("pending", "x"), "'pending' is not a key type with a name: it stands alone"),
    (("metrics:completed", "data"), "it stands alone"),
    (("job",), "'job' is not a whole key: a job key needs a name after it"),
    (("lane",), "a lane key needs a name after it"),
    (("dedup",), "a dedup key needs a name after it"),
    (("stream",), "a stream key needs a name after it"),
    (("job", ""), "is not a branded id"),
    (("job", "USR1"), "is not a branded id"),
    (("job", "job0Nb1VTbfnu4"), "is not a branded id"),
    (("job", JOB + "\n"), "is not a branded id"),
    (("job", "JOBzzzzzzzzzzz"), "is not a branded id"),
    (("job", JOB, "lease"), "'lease' is not a part of a job: known are lock logs"),
    (("job", JOB, ""), "'' is not a part of a job"),
    (("job", JOB, "archived"), "'archived' is not a part of a job"),
    (("lane", "vip"), "is not a branded id"),
    (("lane", LANE, "lock"), "'lane' is not a key type with a part below: only job and stream have one"),
    (("dedup", "x", "lock"), "'dedup' is not a key type with a part below"),
    (("repeat", "x", "lock"), "'repeat' is not a key type with a part below"),
    (("dedup", ""), "'' is not a dedup id: it is 1 to 255 of"),
    (("dedup", "a:b"), "'a:b' is not a dedup id"),
    (("dedup", "ü"), "'ü' is not a dedup id"),
    (("dedup", "x\n"), "is not a dedup id"),
    (("dedup", "x" * 256), "is not a dedup id"),
    (("repeat", ""), "'' is not a repeat name: it is empty"),
    (("stream", ""), "'' is not a stream name"),
    (("stream", "logins:archived"), "which is another stream's watermark"),
    (("stream", "logins:archived", "archived"), "which is another stream's watermark"),
    (("stream", "logins", "lock"), "'lock' is not a part of a stream: known is archived"),
    (("stream", "logins", ""), "'' is not a part of a stream"),
]

BAD_QUEUES = [
    ("", "it is empty"),
    ("{", "braces end the hash tag"),
    ("a{b}", "braces end the hash tag"),
    ("a}b", "braces end the hash tag"),
    ("orders\n", "it holds a control character"),
    ("a\0b", "it holds a control character"),
    ("a\x1b[31m", "it holds a control character"),
    ("a\x7f", "it holds a control character"),
    ("a\x85b", "it holds a control character"),
    ("emq", "that hash tag is reserved for the protocol's own keys"),
]

#: Of the documented grammar, or not but in use all the same.
GOOD_QUEUES = [
    ("orders", True),
    ("emq22.ops123", True),
    ("EMQ", True),
    ("emq2", True),
    ("-", True),
    ("..", True),
    ("x" * 128, True),
    ("x" * 129, False),
    ("eu-west.orders:v2 ü", False),
    ("a b", False),
    ("a*[b]?\\", False),
    ("٣", False),
    ("\u202eabc", False),
    ("\udcff\udcfe", False),
]

UNCLASSIFIED = [  # key, the queue it still belongs to
    (b"", None),
    (b"emq:", None),
    (b"emq:{}:pending", None),
    (b"emq:{orders}", None),
    (b"emq:{orders}pending", None),
    (b"emq:{orders", None),
    (b"emq:{a{b}c}:x", None),
    (b"emq:{a{b}:pending", None),
    (b"emq:{emq}:pending", None),
    (b"emq:{a\nb}:pending", None),
    (b"emq:{a\xc2\x85b}:pending", None),
    (b"EMQ:{orders}:pending", None),
    (b"xemq:{orders}:pending", None),
    (b"emq:orders:pending", None),
    (b"emq:{orders}:", "orders"),
    (b"emq:{orders}::", "orders"),
    (b"emq:{orders}:pending\n", "orders"),
    (b"emq:{orders}:pending:", "orders"),
    (b"emq:{orders}:metrics", "orders"),
    (b"emq:{orders}:metrics:completed:count", "orders"),
    (b"emq:{orders}:job", "orders"),
    (b"emq:{orders}:job:", "orders"),
    (b"emq:{orders}:job:not-an-id", "orders"),
    (b"emq:{orders}:job:JOBzzzzzzzzzzz", "orders"),
    (b"emq:{orders}:job:JOB0Nb1VTbfnu4:", "orders"),
    (b"emq:{orders}:job:JOB0Nb1VTbfnu4:lease", "orders"),
    (b"emq:{orders}:job:JOB0Nb1VTbfnu4:logs:x", "orders"),
    (b"emq:{orders}:job:JOB0Nb1VTbfnu4\n", "orders"),
    (b"emq:{orders}:job:JOB0Nb1VTbfnu4:\xff", "orders"),
    (b"emq:{orders}:g:JOB0Nb1VTbfnu4", "orders"),
    (b"emq:{orders}:g:JOB0Nb1VTbfnu4:active", "orders"),
    (b"emq:{orders}:g:fourteen-bytes:pending", "orders"),
    (b"emq:{orders}:g:\n\n\n\n\n\n\n\n\n\n\n\n\n\n:pending", "orders"),
    (b"emq:{orders}:g:vip:pending", "orders"),
    (b"emq:{orders}:de", "orders"),
    (b"emq:{orders}:de:", "orders"),
    (b"emq:{orders}:de:a b", "orders"),
    (b"emq:{orders}:de:a\n", "orders"),
    (b"emq:{orders}:repeat:", "orders"),
    (b"emq:{orders}:stream", "orders"),
    (b"emq:{orders}:stream:", "orders"),
    (b"emq:{orders}:stream::archived", "orders"),
    (b"emq:{orders}:stream:x:archived:archived", "orders"),
    (b"emq:{orders}:\xff", "orders"),
    (b"version", None),
    (b"{emq}", None),
    (b"{emq}:", None),
    (b"{emq}:other", None),
    (b"{emq}:version\n", None),
    (b"{emq}:version:x", None),
    (b"{emq}:{emq}:version", None),
    (b"{emq}:migration", None),
    (b"{emq}:migration:", None),
    (b"{emq}:migration:emq", None),
    (b"{emq}:migration:a{b", None),
]

# Names as they come from keys: any bytes but braces and control characters.
queues = st.one_of(
    st.text("abz019._-", min_size=1, max_size=12),
    st.text(st.characters(exclude_categories=["Cc", "Cs"], exclude_characters="{}"), min_size=1, max_size=20),
    st.binary(min_size=1, max_size=12)
    .map(decode)
    .filter(lambda name: not any(c in "{}" or ord(c) < 32 or 127 <= ord(c) < 160 for c in name)),
).filter(lambda name: name != "emq")
ids = st.builds(BrandedId, st.text("ABCJOPRTZ", min_size=3, max_size=3), st.integers(0, MAX_SNOWFLAKE)).map(str)
free = st.one_of(st.text(min_size=1), st.binary(min_size=1).map(decode))
stream_names = free.filter(lambda name: not name.endswith(":archived"))
whole_words = st.tuples(st.sampled_from(sorted(FIXED)), st.none(), st.none())
named_words = st.one_of(
    st.tuples(st.just("job"), ids, st.sampled_from([None, *JOB_SUBS])),
    st.tuples(st.just("lane"), ids, st.none()),
    st.tuples(st.just("dedup"), st.text("abyzABYZ059._-", min_size=1, max_size=255), st.none()),
    st.tuples(st.just("repeat"), free, st.none()),
    st.tuples(st.just("stream"), stream_names, st.sampled_from([None, "archived"])),
)
words = st.one_of(whole_words, named_words)
pieces = st.lists(
    st.sampled_from(
        [
            *(b"emq:{", b"{emq}:", b"}:", b"orders", b"emq", b"{", b"}", b":", b"", b"\n", b"\xff", b"g:", b":pending"),
            *(b"job:", b"de:", b"repeat:", b"stream:", b":archived", b"version", b"migration:", b":lock"),
            *(JOB.encode(), LANE.encode(), b"JOBzzzzzzzzzzz", b"pending", b"metrics:failed"),
        ],
    ),
    max_size=9,
).map(b"".join)


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """Draw a true key with a few bytes cut out and a few put in."""
    key = build(draw(queues), *draw(words))
    start = draw(st.integers(0, len(key)))
    return (
        key[:start]
        + draw(st.sampled_from([b"", b":", b"}", b"{", b"x", b"\n"]))
        + key[start + draw(st.integers(0, 2)) :]
    )


anything = st.one_of(st.binary(), pieces, pieces.map(lambda tail: b"emq:{orders}:" + tail), mutated())


def matches(pattern: bytes, key: bytes) -> bool:
    """Tell whether Redis' glob matches; follows ``stringmatchlen`` of its ``util.c``."""
    if not pattern:
        return not key
    head, rest = pattern[:1], pattern[1:]
    if head == b"*":
        return any(matches(rest, key[start:]) for start in range(len(key) + 1))
    if not key:
        return False
    if head == b"[":
        found, rest = in_class(rest, key[0])
        return found and matches(rest, key[1:])
    if head == b"\\" and rest:
        head, rest = rest[:1], rest[1:]
    elif head == b"?":
        head = key[:1]
    return head == key[:1] and matches(rest, key[1:])


def in_class(pattern: bytes, byte: int) -> tuple[bool, bytes]:
    """Tell whether a byte is in the class that begins here; return also what follows the class."""
    negated = pattern[:1] == b"^"
    at, found = int(negated), False
    while at < len(pattern) and pattern[at] != ord("]"):
        if pattern[at] == ord("\\") and at + 1 < len(pattern):
            found, at = found or pattern[at + 1] == byte, at + 2
        elif pattern[at + 1 : at + 2] == b"-" and at + 2 < len(pattern):
            low, high = sorted((pattern[at], pattern[at + 2]))
            found, at = found or low <= byte <= high, at + 3
        else:
            found, at = found or pattern[at] == byte, at + 1
    return found != negated, pattern[at + 1 :]


def as_bytes(value: str | dict[str, str]) -> bytes:
    """Return the bytes a string of the recording stands for."""
    return base64.b64decode(value["b64"]) if isinstance(value, dict) else value.encode()


def world_keys() -> dict[bytes, str]:
    """Return key and Redis type of everything recorded."""
    return {as_bytes(entry["key"]): entry["type"] for entry in WORLD["keys"]}


def audited(rule: str) -> Iterator[tuple[str, Any]]:
    """Yield queue and finding of one rule of the audit."""
    for queue, rules in EXPECTED["audit"].items():
        for finding in rules.get(rule, ()):
            yield queue, finding


def discovered(what: str) -> set[bytes]:
    """Return what a reader of the recorded world should find."""
    return {as_bytes(value) for value in EXPECTED["discovery"][what]}


def redis_type(name: KeyName) -> str:
    """Return the type the registry gives a key."""
    if name.type == "job" and name.sub:
        return JOB_SUBS[name.sub]
    if name.sub == "archived":
        return "string"
    assert name.type
    return NAMED[name.type] if name.id else FIXED[name.type]


# Spelling


@pytest.mark.parametrize(("of", "suffix"), SPELLED)
def test_a_key_is_spelled_as_the_protocol_says(of: Words, suffix: str) -> None:
    assert build("orders", *of) == encode("emq:{orders}:" + suffix)


@pytest.mark.parametrize(("of", "suffix"), SPELLED)
def test_a_spelled_key_is_taken_apart_into_its_words(of: Words, suffix: str) -> None:
    key = encode("emq:{orders}:" + suffix)
    assert parse(key) == KeyName(key, "queue", "orders", *of, b"orders", 105)


def test_every_word_of_the_registry_is_spelled_above() -> None:
    assert {of[0] for of, _ in SPELLED} == {*FIXED, *NAMED}
    assert {of[2] for of, _ in SPELLED if of[0] == "job"} == {None, *JOB_SUBS}


def test_the_builders_of_the_reference_agree() -> None:
    assert QueueKeys("q1").fixed("pending") == b"emq:{q1}:pending"
    assert len(QueueKeys("orders").row(b"")) == 17
    assert build_reserve("locks") == b"{emq}:locks"
    assert build_reserve("version") == VERSION_KEY == b"{emq}:version"


def test_a_queue_knows_its_keys_by_name() -> None:
    keys, job, group = QueueKeys("orders"), BrandedId("JOB", 62), BrandedId("PRT", 61)
    assert keys.queue == "orders"
    assert keys.prefix == b"emq:{orders}:"
    assert [keys.pending, keys.active, keys.schedule, keys.dead] == [
        keys.prefix + word for word in (b"pending", b"active", b"schedule", b"dead")
    ]
    assert keys.lane(group) == keys.prefix + b"g:PRT0000000000z:pending"
    assert keys.job(job) == keys.row(bytes(job)) == keys.prefix + b"job:JOB00000000010"
    assert keys.job(job, "logs") == keys.prefix + b"job:JOB00000000010:logs"
    assert keys.dedup(b"order-99") == keys.prefix + b"de:order-99"
    assert keys.repeat(b"\xff") == keys.prefix + b"repeat:\xff"
    assert keys.stream(b"logins") == keys.prefix + b"stream:logins"
    assert keys.stream(b"logins", archived=True) == keys.prefix + b"stream:logins:archived"


def test_the_row_of_a_member_that_is_no_id_can_be_named_for_reading() -> None:
    assert QueueKeys("orders").row(b"\xff\n") == b"emq:{orders}:job:\xff\n"


def test_a_queue_is_seen_by_its_fixed_keys_but_channel_and_reserved_lists() -> None:
    unseen = {"events", "metrics:completed:data", "metrics:failed:data"}
    assert set(SEEN_BY) == set(FIXED) - unseen
    assert QueueKeys("q1").seen_by == [b"emq:{q1}:" + word.encode() for word in SEEN_BY]


def test_the_types_of_keys_are_those_of_the_protocol() -> None:
    by_type: dict[str, set[str]] = {}
    for word, type_ in FIXED.items():
        by_type.setdefault(type_, set()).add(word)
    assert by_type == {
        "zset": {"pending", "active", "schedule", "dead", "repeat"},
        "list": {"ring", "wake", "flow:outbox", "metrics:completed:data", "metrics:failed:data"},
        "set": {"paused"},
        "hash": {"gactive", "glimit", "gweight", "meta", "metrics:completed", "metrics:failed"},
        "string": {"limiter"},
        "channel": {"events"},
    }
    assert NAMED == {"job": "hash", "lane": "zset", "dedup": "string", "repeat": "hash", "stream": "stream"}
    texts = {"lock": "string", "dependencies": "string", "logs": "list"}
    assert texts | dict.fromkeys(("processed", "failed", "unsuccessful"), "hash") == JOB_SUBS


# Refusals


@pytest.mark.parametrize(("arguments", "why"), UNBUILDABLE)
def test_a_malformed_key_is_not_built(arguments: tuple[str, ...], why: str) -> None:
    with pytest.raises(Malformed) as caught:
        build("orders", *arguments)
    assert why in str(caught.value)


@pytest.mark.parametrize(("name", "why"), BAD_QUEUES)
def test_a_bad_queue_name_builds_nothing(name: str, why: str) -> None:
    assert not in_grammar(name)
    for attempt in (check_queue, QueueKeys, lambda queue: build(queue, "pending")):
        with pytest.raises(Malformed) as caught:
            attempt(name)
        assert str(caught.value) == f"{name!r} is not a queue name: {why}"


@pytest.mark.parametrize(("name", "documented"), GOOD_QUEUES)
def test_a_queue_name_in_use_passes_whether_documented_or_not(name: str, documented: bool) -> None:  # noqa: FBT001
    assert check_queue(name) == name
    assert in_grammar(name) is documented
    assert parse(QueueKeys(name).pending).queue == name


@pytest.mark.parametrize("unit", ["version", "locks", "bundle", "migration:orders", "migration:eu:v2 ü"])
def test_the_closed_reserve_is_built_and_taken_apart(unit: str) -> None:
    key = encode("{emq}:" + unit)
    assert build_reserve(unit) == key
    assert parse(key) == KeyName(key, "reserve", None, unit, None, None, b"emq", 9051)


@pytest.mark.parametrize("unit", ["", "other", "Version", "version\n", "version:", "version:x", "migration"])
def test_the_reserve_has_no_other_member(unit: str) -> None:
    with pytest.raises(Malformed, match="is not a reserve key: known are version locks bundle migration:QUEUE"):
        build_reserve(unit)
    assert unit not in RESERVE_UNITS


@pytest.mark.parametrize("queue", ["", "emq", "a{b}", "a\n"])
def test_no_migration_is_reserved_for_a_bad_queue_name(queue: str) -> None:
    with pytest.raises(Malformed, match="is not a queue name"):
        build_reserve(f"migration:{queue}")


@pytest.mark.parametrize(("key", "queue"), UNCLASSIFIED)
def test_a_key_of_no_known_form_is_unclassified_and_may_have_a_queue(key: bytes, queue: str | None) -> None:
    name = parse(key)
    assert (name.kind, name.queue, name.type, name.id, name.sub) == ("unclassified", queue, None, None, None)


# Laws


@given(st.binary())
def test_turning_bytes_into_a_name_loses_nothing(raw: bytes) -> None:
    assert encode(decode(raw)) == raw


@given(queues, words)
def test_taking_a_built_key_apart_gives_its_words(queue: str, of: Words) -> None:
    key = build(queue, *of)
    assert parse(key) == KeyName(key, "queue", queue, *of, encode(queue), slot_of(encode(queue)))


@given(queues)
def test_taking_a_built_reserve_key_apart_gives_its_unit(queue: str) -> None:
    name = parse(build_reserve(f"migration:{queue}"))
    assert (name.kind, name.type, name.slot) == ("reserve", f"migration:{queue}", 9051)


@given(anything)
@example(b"emq:{orders}:job:" + b"\xff" * 14)
def test_any_bytes_are_taken_apart_and_what_is_classified_builds_again(key: bytes) -> None:
    name = parse(key)
    assert name.key == key
    assert name.slot == slot_of(key) == slot_of(name.tag)
    assert name.queue is None or key.startswith(QueueKeys(name.queue).prefix)
    if name.kind == "queue":
        assert name.queue is not None
        assert name.type is not None
        assert build(name.queue, name.type, name.id, name.sub) == key
    elif name.kind == "reserve":
        assert name.type is not None
        assert build_reserve(name.type) == key
    else:
        assert (name.kind, name.type, name.id, name.sub) == ("unclassified", None, None, None)


@given(queues, st.lists(words, max_size=4))
def test_all_keys_of_a_queue_share_its_slot(queue: str, several: list[Words]) -> None:
    keys = QueueKeys(queue)
    every = [keys.fixed(word) for word in FIXED] + [build(queue, *of) for of in several]
    assert {slot_of(key) for key in every} == {slot_of(encode(queue))}


@given(st.text())
def test_a_queue_name_passes_unless_empty_braced_controlled_or_reserved(name: str) -> None:
    controls = {*map(chr, range(32)), *map(chr, range(127, 160))}
    bad = not name or name == "emq" or bool(controls.union("{}") & set(name))
    try:
        assert check_queue(name) == name
    except Malformed:
        assert bad
    else:
        assert not bad


@given(queues)
def test_a_documented_queue_name_is_one_that_passes(queue: str) -> None:
    documented = len(queue) <= 128 and set(queue) <= {*"._-", *filter(str.isalnum, map(chr, range(128)))}
    assert in_grammar(queue) == documented


# Patterns


@pytest.mark.parametrize(
    ("pattern", "matched", "missed"),
    [
        (b"h?llo", b"hello", b"hllo"),
        (b"h*llo", b"heeeello", b"hell"),
        (b"h[ae]llo", b"hallo", b"hillo"),
        (b"h[^e]llo", b"hallo", b"hello"),
        (b"h[a-b]llo", b"hbllo", b"hcllo"),
        (b"h[\\]]llo", b"h]llo", b"h\\llo"),
        (b"h\\*llo", b"h*llo", b"hello"),
        (b"", b"", b"x"),
    ],
)
def test_the_matcher_of_these_tests_follows_redis(pattern: bytes, matched: bytes, missed: bytes) -> None:
    assert matches(pattern, matched)
    assert not matches(pattern, missed)


@pytest.mark.parametrize(
    ("queue", "pattern"),
    [
        ("orders", b"emq:{orders}:*"),
        ("a*b", rb"emq:{a\*b}:*"),
        ("a?[b]\\", rb"emq:{a\?\[b\]\\}:*"),
        ("\udcff", b"emq:{\xff}:*"),
    ],
)
def test_a_scan_pattern_has_the_globs_of_the_name_escaped(queue: str, pattern: bytes) -> None:
    assert QueueKeys(queue).scan_pattern == pattern


glob_names = st.text("ab*?[]^-!\\", min_size=1, max_size=6)


@given(st.one_of(glob_names, queues), words)
def test_a_scan_pattern_matches_every_key_of_its_queue(queue: str, of: Words) -> None:
    key = build(queue, *of)
    assert matches(QueueKeys(queue).scan_pattern, key)
    assert matches(EVERY_QUEUE_KEY, key)


@given(glob_names, st.one_of(glob_names.map(lambda name: build(name, "pending")), anything))
@example("a*", b"emq:{ab}:pending")
@example("[ab]", b"emq:{a}:pending")
@example("\\*", b"emq:{*}:pending")
def test_a_scan_pattern_matches_no_key_of_another_queue(queue: str, key: bytes) -> None:
    assert matches(QueueKeys(queue).scan_pattern, key) == key.startswith(b"emq:{" + encode(queue) + b"}:")


@pytest.mark.parametrize("unit", ["version", "locks", "bundle", "migration:orders"])
def test_the_pattern_of_every_queue_misses_the_reserve(unit: str) -> None:
    assert not matches(EVERY_QUEUE_KEY, build_reserve(unit))


# The recorded world


def test_the_recorded_world_is_read_whole() -> None:
    assert len(world_keys()) == EXPECTED["discovery"]["keys_total"]


def test_in_the_recorded_world_exactly_the_strangers_and_the_damaged_are_unclassified() -> None:
    strangers = (
        discovered("foreign_keys") | discovered("unclassified_keys") | discovered("reserve_keys") - {VERSION_KEY}
    )
    reserved_tag = {key for key in world_keys() if key.startswith(b"emq:{emq}:")}
    damaged = {QueueKeys(queue).prefix + as_bytes(suffix) for queue, suffix in audited("unknown_suffix")}
    damaged |= {QueueKeys(queue).row(as_bytes(member)) for queue, member in audited("bad_row_id")}
    by_kind: dict[str, set[bytes]] = {"queue": set(), "reserve": set(), "unclassified": set()}
    for key in world_keys():
        by_kind[parse(key).kind].add(key)
    assert by_kind["unclassified"] == strangers | reserved_tag | damaged
    assert by_kind["reserve"] == {VERSION_KEY}
    assert {parse(key).queue for key in strangers | reserved_tag} == {None}
    assert {parse(key).queue for key in damaged} == {"orders"}


def test_in_the_recorded_world_the_queues_discovered_are_found() -> None:
    found = {name.queue for name in map(parse, world_keys()) if name.queue is not None}
    assert {encode(queue) for queue in found} == discovered("queues") | discovered("outside_grammar") - {b"emq"}
    assert {encode(queue) for queue in found if in_grammar(queue)} == discovered("queues")


def test_in_the_recorded_world_every_classified_key_builds_again() -> None:
    for name in map(parse, world_keys()):
        if name.kind == "queue":
            assert build(name.queue or "", name.type or "", name.id, name.sub) == name.key


def test_in_the_recorded_world_keys_have_the_registered_type_but_those_the_audit_names() -> None:
    wrong = {QueueKeys(queue).fixed(word) for queue, word in audited("wrong_type_key")}
    wrong |= {QueueKeys(queue).row(as_bytes(member)) for queue, member in audited("row_wrong_type")}
    classified = {parse(key): type_ for key, type_ in world_keys().items() if parse(key).kind == "queue"}
    assert {name.key for name, type_ in classified.items() if type_ != redis_type(name)} == wrong


def test_in_the_recorded_world_subkeys_without_a_row_are_those_the_audit_names() -> None:
    keys = world_keys()
    orphans: dict[tuple[str, str], set[str]] = {}
    for name in map(parse, keys):
        if name.queue and name.type == "job" and name.sub and build(name.queue, "job", name.id) not in keys:
            orphans.setdefault((name.queue, name.id or ""), set()).add(name.sub)
    expected = {
        (queue, id_): EXPECTED["audit"][queue]["orphan_subkeys"][id_] for queue, id_ in audited("orphan_subkeys")
    }
    assert orphans == {whose: set(subs) for whose, subs in expected.items()}


def test_in_the_recorded_world_lane_keys_are_the_lanes_with_jobs() -> None:
    found = {(name.queue, name.id) for name in map(parse, world_keys()) if name.type == "lane"}
    deep = {
        (queue, group)
        for queue, facts in EXPECTED["queues"].items()
        for group, lane in facts.get("lanes", {}).items()
        if lane["depth"]
    }
    assert found == deep
    assert all(is_branded((group or "").encode()) for _, group in found)


def test_a_name_is_the_same_whatever_locale_it_was_typed_in() -> None:
    typed_in_ascii = "ü".encode().decode("ascii", "surrogateescape")
    assert QueueKeys(typed_in_ascii).queue == "ü"
    with pytest.raises(Malformed, match="control character"):
        check_queue("\x85".encode().decode("ascii", "surrogateescape"))


@pytest.mark.parametrize("build_it", [QueueKeys, parse_id, lambda name: build("q", "dedup", name)])
def test_half_a_character_is_malformed(build_it: Callable[[str], object]) -> None:
    with pytest.raises(Malformed):
        build_it("\ud800")


def test_a_part_below_a_key_needs_the_name_between_them() -> None:
    with pytest.raises(Malformed, match="lock"):
        build("orders", "pending", None, "lock")


@pytest.mark.parametrize(
    ("key", "redis_type"),
    [
        (b"emq:{q}:pending", "zset"),
        (b"emq:{q}:repeat", "zset"),
        (b"emq:{q}:repeat:daily", "hash"),
        (b"emq:{q}:job:JOB0Nb1VTbfnu4", "hash"),
        (b"emq:{q}:job:JOB0Nb1VTbfnu4:logs", "list"),
        (b"emq:{q}:stream:x", "stream"),
        (b"emq:{q}:stream:x:archived", "string"),
        (b"{emq}:version", "string"),
    ],
)
def test_a_key_knows_its_redis_type(key: bytes, redis_type: str) -> None:
    assert parse(key).redis_type == redis_type


@pytest.mark.parametrize(
    ("suffix", "words"),
    [
        (b"pending", ("pending", b"pending", None)),
        (b"job:not-an-id", ("job", b"not-an-id", None)),
        (b"job:x:logs", ("job", b"x", "logs")),
        (b"job:x:nothing", (None, b"job:x:nothing", None)),
        (b"job", (None, b"job", None)),
        (b"de:a b", ("dedup", b"a b", None)),
        (b"de:", (None, b"de:", None)),
        (b"g:" + LANE.encode() + b":pending", ("lane", LANE.encode(), None)),
        (b"stream:x:archived", ("stream", b"x", "archived")),
        (b"futuretype", (None, b"futuretype", None)),
    ],
)
def test_a_suffix_is_sorted_by_what_it_was_meant_to_be(
    suffix: bytes, words: tuple[str | None, bytes, str | None]
) -> None:
    assert sort_suffix(suffix) == words


def test_a_key_is_split_at_its_queue() -> None:
    keys = QueueKeys("orders")
    assert split(keys.prefix + b"futuretype") == ("orders", b"futuretype")
    assert (split(b"session:1"), split(b"emq:{emq}:pending")) == (None, None)
    assert place_of(keys.prefix + b"g:" + LANE.encode() + b":pending") == ("orders", LANE.encode())
    assert place_of(keys.prefix + b"g:" + b"x" * 14 + b":pending") == ("orders", None)
    assert (place_of(keys.pending), place_of(b"session:1")) == (("orders", None), (None, None))
    assert keys.lane_pattern == b"emq:{orders}:g:*:pending"
