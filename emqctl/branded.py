"""Branded ids: three letters of kind and a snowflake, in 14 bytes that sort by mint time.

``JOB0Nb1VTbfnu4`` = namespace ``JOB`` + 11 base62 digits of a 63-bit snowflake. The alphabet is in
ASCII order and the width is fixed, so within a namespace byte order = numeric order = mint order.

Layout of the snowflake, high to low: 41 bits of milliseconds since 2024-01-01T00:00:00Z, 10 bits of
node, 12 bits of sequence.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from emqctl.errors import Malformed

ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
EPOCH_MS = 1_704_067_200_000
LENGTH = 14
MAX_SNOWFLAKE = 2**63 - 1

_DIGITS = 11
_NAMESPACE = re.compile(r"[A-Z]{3}")
_SHAPE = re.compile(rb"[A-Z]{3}[0-9A-Za-z]{11}")
_LARGEST = b"AzL8n0Y58m7"  # base62 of MAX_SNOWFLAKE
_VALUE = {character: value for value, character in enumerate(ALPHABET)}
_UNIX_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


@dataclass(frozen=True, order=True)
class BrandedId:
    """A well-formed id, ordered by namespace, then mint order.

    Raises Malformed for a namespace that is not three letters ``A-Z`` or a snowflake outside 0..2^63-1.
    """

    namespace: str
    snowflake: int

    def __post_init__(self) -> None:
        if not _NAMESPACE.fullmatch(self.namespace):
            raise Malformed("an id namespace", self.namespace, "it is three letters A-Z")
        if not 0 <= self.snowflake <= MAX_SNOWFLAKE:
            raise Malformed("a snowflake", str(self.snowflake), "it is a number from 0 to 2^63-1")

    def __str__(self) -> str:
        digits = []
        rest = self.snowflake
        for _ in range(_DIGITS):
            rest, value = divmod(rest, 62)
            digits.append(ALPHABET[value])
        return self.namespace + "".join(reversed(digits))

    def __bytes__(self) -> bytes:
        return str(self).encode("ascii")

    @property
    def minted_ms(self) -> int:
        """Milliseconds since 1970 at which the id was made, by the clock of the node that made it."""
        return (self.snowflake >> 22) + EPOCH_MS

    @property
    def minted(self) -> datetime:
        """The mint time in UTC, exact to the millisecond."""
        return _UNIX_EPOCH + timedelta(milliseconds=self.minted_ms)

    @property
    def node(self) -> int:
        """The minting node, 0..1023."""
        return (self.snowflake >> 12) & 1023

    @property
    def sequence(self) -> int:
        """The number within one node and millisecond, 0..4095."""
        return self.snowflake & 4095


def is_branded(raw: bytes) -> bool:
    """Tell whether these bytes are a well-formed id of any namespace."""
    return _SHAPE.fullmatch(raw) is not None and raw[3:] <= _LARGEST


def is_job(raw: bytes) -> bool:
    """Tell whether these bytes are a well-formed id of a job."""
    return is_branded(raw) and raw.startswith(b"JOB")


def parse(text: str | bytes) -> BrandedId:
    """Read an id. Raises Malformed, naming the rule it breaks."""
    shown = text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text
    try:
        raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError as error:
        raise Malformed("a branded id", shown, "it holds half a character") from error
    if not is_branded(raw):
        raise Malformed("a branded id", shown, _why_not(raw))
    snowflake = 0
    for character in raw[3:].decode("ascii"):
        snowflake = snowflake * 62 + _VALUE[character]
    return BrandedId(raw[:3].decode("ascii"), snowflake)


def parse_job(text: str | bytes) -> BrandedId:
    """Read an id that must be a job's. Raises Malformed for any other namespace."""
    branded = parse(text)
    if branded.namespace != "JOB":
        raise Malformed("a job id", str(branded), "job ids begin with JOB")
    return branded


def minted_at(raw: bytes) -> datetime | None:
    """Return the mint time of an id, or None for bytes that are no id."""
    return parse(raw).minted if is_branded(raw) else None


def smallest_at(unix_ms: int, namespace: str = "JOB") -> BrandedId:
    """Return the smallest id of that millisecond: every id minted before it sorts below.

    Raises Malformed before 2024-01-01 and after 2093-09-06T15:47:35.551Z, which no id can hold.
    """
    since_epoch = unix_ms - EPOCH_MS
    if not 0 <= since_epoch < 2**41:
        why = "ids hold 2024-01-01T00:00:00Z to 2093-09-06T15:47:35.551Z"
        raise Malformed("a mint time", f"{unix_ms} ms", why)
    return BrandedId(namespace, since_epoch << 22)


def _why_not(raw: bytes) -> str:
    if len(raw) != LENGTH:
        return f"it is {LENGTH} bytes long, this is {len(raw)}"
    if not _NAMESPACE.fullmatch(raw[:3].decode("latin-1")):
        return "it begins with three letters A-Z"
    if not _SHAPE.fullmatch(raw):
        return "after the namespace stand eleven digits 0-9 A-Z a-z"
    return "its number is larger than 2^63-1"
