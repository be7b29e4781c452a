"""Cluster slots: the vectors of the protocol, and agreement with the client library."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emqctl.slots import SLOT_COUNT, hash_tag, slot_of

VECTORS = [  # protocol.md 5.2: key, hash tag, slot
    (b"123456789", b"123456789", 12739),
    (b"emq:{q1}:pending", b"q1", 7450),
    (b"emq:{orders}:pending", b"orders", 105),
    (b"emq:{orders}:job:JOB0NgWEfAEJfs", b"orders", 105),
    (b"emq:{default}:dead", b"default", 5718),
    (b"emq:{q7}:active", b"q7", 15836),
    (b"emq:{q9}:active", b"q9", 7186),
    (b"{emq}:version", b"emq", 9051),
    (b"emq:{}:pending", b"emq:{}:pending", 7387),
    (b"emq:{a{b}c}:x", b"a{b", 13340),
    (b"foo{{bar}}zap", b"{bar", 4015),
    (b"foo{bar}{zap}", b"bar", 5061),
    (b"emq:{", b"emq:{", 4165),
]

keys = st.one_of(
    st.binary(),
    st.lists(st.sampled_from([b"{", b"}", b"emq:", b"orders", b":", b"\0", b"\n", b"\xff"])).map(b"".join),
)


@pytest.mark.parametrize(("key", "tag", "slot"), VECTORS)
def test_a_key_lives_where_the_protocol_says(key: bytes, tag: bytes, slot: int) -> None:
    assert hash_tag(key) == tag
    assert slot_of(key) == slot


@pytest.mark.parametrize(
    ("key", "tag"),
    [
        (b"", b""),
        (b"{", b"{"),
        (b"}", b"}"),
        (b"{}", b"{}"),
        (b"{}{orders}", b"{}{orders}"),  # an empty tag is not made up for by a later one
        (b"}{orders}", b"orders"),
        (b"a}b", b"a}b"),
        (b"{\xff\n}", b"\xff\n"),
    ],
)
def test_only_a_nonempty_text_between_the_first_braces_is_a_tag(key: bytes, tag: bytes) -> None:
    assert hash_tag(key) == tag


def test_a_queue_name_has_the_slot_of_its_keys() -> None:
    assert slot_of(b"orders") == slot_of(b"emq:{orders}:pending") == 105


@pytest.fixture(scope="module")
def key_slot() -> Callable[[bytes], int]:
    from redis.crc import key_slot  # the one redis.cluster calls

    return key_slot


@given(key=keys)
def test_a_slot_is_the_one_the_client_library_computes(key_slot: Callable[[bytes], int], key: bytes) -> None:
    assert slot_of(key) == key_slot(key)


@given(keys)
def test_a_slot_is_a_number_below_the_count(key: bytes) -> None:
    assert 0 <= slot_of(key) < SLOT_COUNT == 16384


@given(keys)
def test_a_tag_lives_where_its_key_lives(key: bytes) -> None:
    assert hash_tag(hash_tag(key)) == hash_tag(key)
    assert slot_of(hash_tag(key)) == slot_of(key)
