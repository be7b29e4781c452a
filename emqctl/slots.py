"""Cluster slots: which of the 16384 a key lives in."""

from __future__ import annotations

from binascii import crc_hqx

SLOT_COUNT = 16384


def hash_tag(key: bytes) -> bytes:
    """Return the part of a key that is hashed.

    The text between the first ``{`` and the next ``}`` if there is any, else the whole key.
    """
    _, _, rest = key.partition(b"{")
    tag, closed, _ = rest.partition(b"}")
    return tag if closed and tag else key


def slot_of(key: bytes) -> int:
    """Return the slot of a key, 0 <= slot < SLOT_COUNT: CRC16-XMODEM of its hash tag."""
    return crc_hqx(hash_tag(key), 0) % SLOT_COUNT
