"""Server URLs: read strictly, shown without their secrets."""

from __future__ import annotations

from urllib.parse import quote

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from emqctl.endpoint import DEFAULT_URL, Endpoint, parse_url, redact
from emqctl.errors import Malformed

SECRETS = st.text(min_size=1, max_size=12)

GOOD = [
    (DEFAULT_URL, Endpoint("redis", "127.0.0.1", 6379, "", 0)),
    ("redis://h", Endpoint("redis", "h", 6379, "", 0)),
    ("redis://h/", Endpoint("redis", "h", 6379, "", 0)),
    ("redis://h:6390/7", Endpoint("redis", "h", 6390, "", 7)),
    ("redis://h:/7", Endpoint("redis", "h", 6379, "", 7)),
    ("valkey://h.example.org:1", Endpoint("valkey", "h.example.org", 1, "", 0)),
    ("rediss://h", Endpoint("rediss", "h", 6379, "", 0)),
    ("valkeys://h", Endpoint("valkeys", "h", 6379, "", 0)),
    ("redis://[::1]:7000/2", Endpoint("redis", "::1", 7000, "", 2)),
    ("redis://[fe80::1]", Endpoint("redis", "fe80::1", 6379, "", 0)),
    ("unix:///run/redis.sock", Endpoint("unix", path="/run/redis.sock")),
    ("unix:///run/redis.sock?db=3", Endpoint("unix", path="/run/redis.sock", db=3)),
    ("unix:///run/a%20b%3Fc", Endpoint("unix", path="/run/a b?c")),
    ("redis://user@h", Endpoint("redis", "h", username="user")),
    ("redis://:pw@h", Endpoint("redis", "h", password="pw")),
    ("redis://user:pw@h", Endpoint("redis", "h", username="user", password="pw")),
    ("redis://us%40er:p%3A%2F%23%3F%25%40@h:1/1", Endpoint("redis", "h", 1, "", 1, "us@er", "p:/#?%@")),
    ("redis://user:p@ss@h", Endpoint("redis", "h", username="user", password="p@ss")),
    ("redis://user:n%C3%A4%E2%9C%93@h", Endpoint("redis", "h", username="user", password="nä✓")),
    ("redis://:@h", Endpoint("redis", "h")),
    ("unix://user:pw@/run/x", Endpoint("unix", path="/run/x", username="user", password="pw")),
]

BAD = [
    ("", "schemes are"),
    ("h", "schemes are"),
    ("h:6379", "schemes are"),
    ("//h", "schemes are"),
    ("http://h", "schemes are"),
    ("redis", "schemes are"),
    ("redis:", "no host"),
    ("redis:h", "no host"),
    ("redis://", "no host"),
    ("redis:///0", "no host"),
    ("redis://:6379", "no host"),
    ("redis://h:port", "host or port"),
    ("redis://h:65536", "host or port"),
    ("redis://h:-1", "host or port"),
    ("redis://[::1", "host or port"),
    ("redis://h/abc", "the database is a number"),
    ("redis://h/-1", "the database is a number"),
    ("redis://h/0x1", "the database is a number"),
    ("redis://h/1/2", "the database is a number"),
    ("redis://h/1 ", "the database is a number"),
    ("redis://h/٣", "the database is a number"),
    ("redis://h/" + "9" * 10, "the database is a number"),
    ("redis://h?db=1", "nothing may follow"),
    ("redis://h/0?protocol=3", "nothing may follow"),
    ("redis://h/0#x", "nothing may follow"),
    ("redis://user:%ff@h", "not UTF-8"),
    ("unix://", "whole path"),
    ("unix://run/redis.sock", "whole path"),
    ("unix:///run/x?db=one", "the database is a number"),
    ("unix:///run/x?password=pw", "only option"),
    ("unix:///run/x#y", "nothing may follow"),
    ("unix:///run/%ff", "not UTF-8"),
]


@pytest.mark.parametrize(("url", "endpoint"), GOOD, ids=[url for url, _ in GOOD])
def test_a_url_is_read_whole(url: str, endpoint: Endpoint) -> None:
    assert parse_url(url) == endpoint
    assert endpoint.tls == url.startswith(("rediss", "valkeys"))


@pytest.mark.parametrize(("url", "why"), BAD, ids=[url or "empty" for url, _ in BAD])
def test_a_url_that_is_none_is_refused_with_the_rule_it_breaks(url: str, why: str) -> None:
    with pytest.raises(Malformed) as caught:
        parse_url(url)
    assert why in str(caught.value)
    assert "is not a server URL" in str(caught.value)


@pytest.mark.parametrize(("url", "endpoint"), GOOD, ids=[url for url, _ in GOOD])
def test_an_endpoint_is_shown_as_a_url_without_its_secrets(url: str, endpoint: Endpoint) -> None:
    shown = str(endpoint)
    again = parse_url(shown.replace("***@", "").replace(" ", "%20").replace("b?c", "b%3Fc"))
    assert (again.scheme, again.host, again.port, again.path, again.db) == (
        endpoint.scheme,
        endpoint.host,
        endpoint.port,
        endpoint.path,
        endpoint.db,
    )
    assert ("***@" in shown) == bool(endpoint.username or endpoint.password)
    for secret in filter(None, (endpoint.username, endpoint.password)):
        assert secret not in shown.replace("redis", "")
        assert secret not in repr(endpoint)


@given(
    st.sampled_from(["redis", "rediss", "valkey", "valkeys"]),
    st.sampled_from(["h", "h.example", "10.0.0.1", "[::1]"]),
    st.none() | st.integers(1, 65535),
    st.none() | st.integers(0, 999),
    st.none() | SECRETS,
    st.none() | SECRETS,
)
def test_what_is_put_into_a_url_is_read_back(
    scheme: str, host: str, port: int | None, db: int | None, user: str | None, password: str | None
) -> None:
    userinfo = quote(user or "", safe="") + (f":{quote(password, safe='')}" if password else "")
    url = f"{scheme}://{userinfo}@{host}" if userinfo else f"{scheme}://{host}"
    url += "" if port is None else f":{port}"
    url += "" if db is None else f"/{db}"
    endpoint = parse_url(url)
    assert (endpoint.scheme, endpoint.host) == (scheme, host.strip("[]"))
    assert (endpoint.port, endpoint.db) == (port or 6379, db or 0)
    assert (endpoint.username, endpoint.password) == (user, password)


@given(st.text())
def test_any_text_is_a_url_or_refused(text: str) -> None:
    try:
        parse_url(text)
    except Malformed as error:
        assert "is not a server URL" in str(error)  # noqa: PT017 - one of two good ends


SHAPES = [
    "redis://user:{}@h:6379/0",
    "redis://:{}@h",
    "redis://{}@h",
    "redis://user:{}@h:port/x",
    "redis://user:{}@[::1/0",
    "redis://user:{}",
    "redis://user:{}/0",
    "redis://:{}",
    "redis://user:pre/{}@h",
    "redis://user:pre#{}@h/0",
    "redis://user:pre?{}@h/0",
    "redis://user:pre@{}@h/0",
    "http://user:{}@h",
    "unix:///run/x?password={}",
    "unix:///run/x?db=1&password={}",
    "redis://h/0?password={}",
    "redis://h/0?username=u&password={}&db=1",
    "user:{}@h:6379",
    "user:{}@h:6379/0",
    ":{}@h",
    "redis:user:{}@h",
    "redis:/user:{}@h",
    "redis:///user:{}@h",
    "redis//user:{}@h",
    "REDIS://user:{}@h/x",
]


@pytest.mark.parametrize("shape", SHAPES)
@settings(max_examples=25)
@given(secret=st.from_regex(r"[a-z][!-~]{2,12}[a-z]", fullmatch=True))
def test_a_secret_never_shows_whatever_is_wrong_with_the_url(shape: str, secret: str) -> None:
    """Whatever cuts it up; one that begins with ``@`` or is a number cannot be told from a host or a port."""
    assume(secret not in shape)
    url = shape.format(secret)
    shown = redact(url)
    assert secret not in shown
    try:
        assert secret not in str(parse_url(url)) or secret in "redis://***@:6379/0"
    except Malformed as error:
        assert secret not in str(error)  # noqa: PT017 - one of two good ends


@given(st.text(), SECRETS)
def test_whatever_stands_before_an_at_sign_is_left_out(before: str, secret: str) -> None:
    assume(len(secret) > 3)
    assume(secret not in "redis://***@h")
    assert secret not in redact(f"redis://{before}{secret}@h").removeprefix("redis://***@")


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://h:6379/0", "redis://h:6379/0"),
        ("redis://user:pw@h:6379/0", "redis://***@h:6379/0"),
        ("redis://:pw@h", "redis://***@h"),
        ("redis://user@h", "redis://***@h"),
        ("redis://h:port/0", "redis://h:***/0"),
        ("redis://[::1]:6379/0", "redis://[::1]:6379/0"),
        ("unix:///run/x?db=1", "unix:///run/x?db=1"),
        ("unix:///run/x?db=1&password=pw", "unix:///run/x?db=***&password=***"),
    ],
)
def test_what_is_no_secret_stays_readable(url: str, shown: str) -> None:
    assert redact(url) == shown


def test_the_repr_of_an_endpoint_holds_no_secret() -> None:
    assert "s3cret" not in repr(parse_url("redis://user:s3cret@h"))
    assert "user" not in repr(parse_url("redis://user:s3cret@h"))
