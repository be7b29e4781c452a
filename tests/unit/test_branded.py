"""Branded ids: the vectors of the protocol, what is refused, and the laws of their order."""

import re
from datetime import datetime, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqctl.branded import (
    ALPHABET,
    EPOCH_MS,
    LENGTH,
    MAX_SNOWFLAKE,
    BrandedId,
    is_branded,
    is_job,
    minted_at,
    parse,
    parse_job,
    smallest_at,
)
from emqctl.errors import EmqError, Malformed

LAST_MS = EPOCH_MS + 2**41 - 1

VECTORS = [  # protocol.md 5.1: id, snowflake, minted, node, sequence
    ("USR0KHTOWnGLuC", 274557032793636864, "2026-01-27T15:11:37.641+00:00", 0, 0),
    ("USR0NgWEfAEJfs", 320636799581945856, "2026-06-03T18:56:10.164+00:00", 0, 0),
    ("ORD0NgWEfAEJfs", 320636799581945856, "2026-06-03T18:56:10.164+00:00", 0, 0),
    ("JOB00000000000", 0, "2024-01-01T00:00:00.000+00:00", 0, 0),
    ("JOB0000000000z", 61, "2024-01-01T00:00:00.000+00:00", 0, 61),
    ("JOB00000000010", 62, "2024-01-01T00:00:00.000+00:00", 0, 62),
    ("JOBAzL8n0Y58m7", 9223372036854775807, "2093-09-06T15:47:35.551+00:00", 1023, 4095),
]

LONG, NAMESPACE, DIGITS, LARGE = "14 bytes long", "three letters A-Z", "eleven digits", "larger than 2^63-1"
REFUSED = [
    ("", LONG),
    ("JOB", LONG),
    ("0K48QjihpC4", LONG),
    ("JOB0000000000", LONG),
    ("JOB000000000000", LONG),
    ("JOB00000000000\n", LONG),
    (" JOB00000000000", LONG),
    ("not-a-branded-id", LONG),
    ("not-branded", LONG),
    ("USR1", LONG),
    ("garbage", LONG),
    ("JOB0000000000ü", LONG),  # 14 characters, 15 bytes
    ("job00000000000", NAMESPACE),
    ("JOb00000000000", NAMESPACE),
    ("J0B00000000000", NAMESPACE),
    ("00000000000000", NAMESPACE),
    ("ÄB00000000000", NAMESPACE),  # 14 bytes
    ("JOB0000000000\n", DIGITS),
    ("JOB000000000ü", DIGITS),  # 14 bytes
    ("JOB0000000000-", DIGITS),
    ("JOB0000000000 ", DIGITS),
    ("JOB0000000000\0", DIGITS),
    ("JOB0000000000\udcff", DIGITS),
    ("JOB" + 5 * "\u0660" + "0", DIGITS),  # Arabic digits are digits to Python
    ("JOBAzL8n0Y58m8", LARGE),
    ("JOBB0000000000", LARGE),
    ("JOBzzzzzzzzzzz", LARGE),
]

namespaces = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=3, max_size=3)
snowflakes = st.integers(0, MAX_SNOWFLAKE)
ids = st.builds(BrandedId, namespaces, snowflakes)
instants = st.integers(EPOCH_MS, LAST_MS)
parts = st.tuples(instants, st.integers(0, 1023), st.integers(0, 4095))
near_ids = st.one_of(
    st.from_regex(rb"[A-Z]{3}[0-9A-Za-z]{11}", fullmatch=True),
    st.from_regex(rb"[A-Z]{3}A[y-z][K-M][0-9A-Za-z]{8}", fullmatch=True),  # around the largest
    st.binary(min_size=13, max_size=15),
    st.binary(),
)


def mint(ms: int, node: int, sequence: int, namespace: str = "JOB") -> BrandedId:
    return BrandedId(namespace, (ms - EPOCH_MS) << 22 | node << 12 | sequence)


@pytest.mark.parametrize(("text", "snowflake", "minted", "node", "sequence"), VECTORS)
def test_an_id_decodes_as_the_protocol_says(text: str, snowflake: int, minted: str, node: int, sequence: int) -> None:
    branded = parse(text)
    assert branded.namespace == text[:3]
    assert branded.snowflake == snowflake
    assert branded.minted == datetime.fromisoformat(minted)
    assert branded.minted.utcoffset() == timezone.utc.utcoffset(None)
    assert branded.minted.isoformat(timespec="milliseconds") == minted
    assert (branded.node, branded.sequence) == (node, sequence)
    assert minted_at(text.encode()) == branded.minted


@pytest.mark.parametrize(("text", "snowflake"), [vector[:2] for vector in VECTORS])
def test_an_id_encodes_as_the_protocol_says(text: str, snowflake: int) -> None:
    assert str(BrandedId(text[:3], snowflake)) == text
    assert bytes(BrandedId(text[:3], snowflake)) == text.encode()


@pytest.mark.parametrize(
    ("text", "minted_ms"),
    [("USR0KHTOWnGLuC", 1769526697641), ("USR0NgWEfAEJfs", 1780512970164), ("JOBAzL8n0Y58m7", 3903090455551)],
)
def test_the_mint_time_is_exact_in_milliseconds(text: str, minted_ms: int) -> None:
    assert parse(text).minted_ms == minted_ms


def test_the_vector_of_the_old_docs_is_wrong_in_both_directions() -> None:
    assert parse("JOB0K48QjihpC4").snowflake == 271644782957166592  # not 12345678901234
    assert str(BrandedId("JOB", 12345678901234)) == "JOB0003VLrOWLi"  # not 0K48QjihpC4


def test_an_id_is_read_alike_from_text_and_from_bytes() -> None:
    assert parse("PRT0NgWEfAEJfs") == parse(b"PRT0NgWEfAEJfs")


@pytest.mark.parametrize(("text", "why"), REFUSED)
def test_what_is_no_id_is_refused_with_the_rule_it_breaks(text: str, why: str) -> None:
    raw = text.encode("utf-8", "surrogateescape")
    assert not is_branded(raw)
    assert minted_at(raw) is None
    for given_as in (text, raw):
        with pytest.raises(Malformed, match=re.escape(why)) as caught:
            parse(given_as)
        assert caught.value.what == "a branded id"
        assert caught.value.why in str(caught.value)
    with pytest.raises(Malformed):
        parse_job(text)


def test_a_refusal_holds_its_fields_and_makes_one_sentence() -> None:
    with pytest.raises(Malformed) as caught:
        parse("USR1")
    assert str(caught.value) == "'USR1' is not a branded id: it is 14 bytes long, this is 4"
    assert (caught.value.what, caught.value.value) == ("a branded id", "USR1")
    assert caught.value.hint is None
    assert isinstance(caught.value, EmqError)
    assert isinstance(caught.value, ValueError)


def test_a_refusal_shows_bytes_that_are_no_text_as_escapes() -> None:
    with pytest.raises(Malformed) as caught:
        parse(b"JOB\xff\x1b[31m")
    assert str(caught.value).isprintable()
    assert "xff" in caught.value.value


def test_only_the_namespace_job_is_a_job() -> None:
    assert parse_job("JOB0NgWEfAEJfs") == parse_job(b"JOB0NgWEfAEJfs") == parse("JOB0NgWEfAEJfs")
    with pytest.raises(Malformed, match="'PRT0NgWEfAEJfs' is not a job id: job ids begin with JOB"):
        parse_job("PRT0NgWEfAEJfs")


@pytest.mark.parametrize("namespace", ["", "JO", "JOBS", "job", "JOB\n", "J B", "ÄÖÜ", "J0B"])
def test_no_id_is_built_with_a_bad_namespace(namespace: str) -> None:
    with pytest.raises(Malformed, match="is not an id namespace: it is three letters A-Z"):
        BrandedId(namespace, 0)


@pytest.mark.parametrize("snowflake", [-1, MAX_SNOWFLAKE + 1, 2**64])
def test_no_id_is_built_with_a_snowflake_out_of_range(snowflake: int) -> None:
    with pytest.raises(Malformed, match=r"is not a snowflake: it is a number from 0 to 2\^63-1"):
        BrandedId("JOB", snowflake)


def test_the_smallest_id_of_the_first_and_of_the_last_millisecond() -> None:
    assert str(smallest_at(EPOCH_MS)) == "JOB00000000000"
    assert smallest_at(LAST_MS).minted_ms == LAST_MS == 3903090455551
    assert str(smallest_at(1769526697641, "USR")) == "USR0KHTOWnGLuC"


@pytest.mark.parametrize("unix_ms", [EPOCH_MS - 1, LAST_MS + 1, 0, -1, 2**80])
def test_a_time_that_no_id_holds_is_refused(unix_ms: int) -> None:
    with pytest.raises(Malformed, match=f"'{unix_ms} ms' is not a mint time: ids hold 2024-01-01"):
        smallest_at(unix_ms)


def test_the_smallest_id_refuses_a_bad_namespace() -> None:
    with pytest.raises(Malformed, match="an id namespace"):
        smallest_at(EPOCH_MS, "job")


@given(ids)
def test_parsing_what_was_built_gives_the_same_id(branded: BrandedId) -> None:
    assert parse(str(branded)) == parse(bytes(branded)) == branded
    assert len(bytes(branded)) == LENGTH


@given(near_ids)
def test_building_what_was_parsed_gives_the_same_bytes(raw: bytes) -> None:
    if is_branded(raw):
        assert bytes(parse(raw)) == raw


@given(near_ids)
def test_exactly_fourteen_bytes_of_the_shape_up_to_the_largest_number_are_an_id(raw: bytes) -> None:
    shaped = re.fullmatch(rb"[A-Z]{3}[0-9A-Za-z]{11}", raw)
    number = sum(ALPHABET.index(chr(digit)) * 62**place for place, digit in enumerate(raw[:2:-1])) if shaped else -1
    assert is_branded(raw) == (0 <= number <= MAX_SNOWFLAKE)


@given(st.one_of(near_ids, st.text()))
def test_reading_an_id_raises_nothing_but_malformed(anything: str | bytes) -> None:
    raw = anything if isinstance(anything, bytes) else anything.encode()
    try:
        parse(anything)
    except Malformed:
        assert not is_branded(raw)
        assert minted_at(raw) is None
    else:
        assert is_branded(raw)
        assert minted_at(raw) is not None


@given(parts)
def test_the_fields_of_a_snowflake_are_those_it_was_minted_with(made_of: tuple[int, int, int]) -> None:
    branded = mint(*made_of)
    assert (branded.minted_ms, branded.node, branded.sequence) == made_of
    assert round(branded.minted.timestamp() * 1000) == branded.minted_ms


@given(parts, parts)
def test_byte_order_of_ids_is_mint_order(one: tuple[int, int, int], other: tuple[int, int, int]) -> None:
    assert (bytes(mint(*one)) < bytes(mint(*other))) == (one < other)


@given(ids, ids)
def test_order_of_ids_of_any_namespace_is_byte_order(one: BrandedId, other: BrandedId) -> None:
    assert (one < other) == (bytes(one) < bytes(other))
    assert (one == other) == (bytes(one) == bytes(other))


@given(parts, namespaces)
def test_no_id_of_a_millisecond_is_smaller_than_its_smallest(made_of: tuple[int, int, int], namespace: str) -> None:
    smallest = smallest_at(made_of[0], namespace)
    assert smallest == mint(made_of[0], 0, 0, namespace) <= mint(*made_of, namespace)
    assert smallest.minted_ms == made_of[0]


@given(st.integers(EPOCH_MS + 1, LAST_MS))
def test_the_id_before_the_smallest_of_a_millisecond_is_older(unix_ms: int) -> None:
    assert BrandedId("JOB", smallest_at(unix_ms).snowflake - 1).minted_ms == unix_ms - 1


def test_a_job_id_is_an_id_of_its_namespace() -> None:
    assert is_job(b"JOB0Nb1VTbfnu4")
    assert not is_job(b"EVT0Nb1VTbfnu4")
    assert not is_job(b"JOB")
