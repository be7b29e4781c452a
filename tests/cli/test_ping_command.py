"""``ping``: as printed, and what it says of a user is true: every kind of command is really run as that user."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import redis
import wire
import worlds
from cli.commands import READS
from cli.running import Emqctl, Result
from cli.stubs import refused_port

from emqctl import permissions
from emqctl.cli.root import GROUPS
from emqctl.demo.server import PrivateServer
from emqctl.render import FORMATS

FIELDS = [
    *("server", "kind", "version", "topology", "role", "round_trip_ms", "database", "wire_version", "known"),
    *("user", "may", "may_not"),
]
LANE = "TEN0IlTd9mDCbY"

#: One command line of each kind that changes something in the recorded world; {payload} is a file.
CHANGING = {
    "requeue": ("requeue", "orders", "JOB0JKKc6VjgKu"),
    "bury": ("bury", "orders", "{waiting}", "--reason", "poison"),
    "reap": ("reap", "orders", "{lapsed}"),
    "promote": ("promote", "orders", "{scheduled}"),
    "move": ("move", "emails", "{in lane}", "--to", "TEN0IlTdNVlop6"),
    "remove": ("remove", "orders", "{waiting}", "--yes"),
    "edit": ("edit", "orders", "{waiting}", "--payload", "{payload}"),
    "control": ("pause", "orders"),
    "obliterate": ("obliterate", "reports", "--force", "--confirm", "reports"),
    "fix": ("doctor", "broken", "--fix", "--yes"),
}
BROAD = {"fix", "obliterate"}  # a run sends what it finds something for
LOOKING = [
    words for name, lines in {**READS, "doctor": [("doctor",)]}.items() if name in GROUPS["Look"] for words in lines
]

#: Rights of a user -> the kinds of command that are not to be run, or None where that cannot be told.
USERS = {
    "everything": ("+@all ~*", set()),
    "an observer": ("+@read +@connection +@transaction +time ~emq:* ~{emq}:*", set(CHANGING)),
    "an operator": (
        "+@read +@write -@dangerous +@connection +@transaction +time +evalsha +script|load ~emq:* ~{emq}:*",
        set(),
    ),
    "no HSET": ("+@all -hset ~*", set(CHANGING) - {"remove", "obliterate"}),
    "no ZADD": ("+@all -zadd ~*", {"requeue", "bury", "reap", "promote", "move", "fix"}),
    "no programs": ("+@all -evalsha ~*", set(CHANGING)),
    "no version": ("+@all ~emq:*", set(CHANGING)),
    "no HINCRBY": ("+@all -hincrby ~*", set(CHANGING) - {"edit", "control", "fix"}),
    "keys to read": ("+@all %R~emq:* %R~{emq}:*", set(CHANGING)),
    "no scanning": ("+@all -scan ~*", {"look", *BROAD}),
    "no lengths": ("+@all -hstrlen ~*", {"look", *BROAD}),
    "other keys": ("+@all ~cache:* ~{emq}:*", {"look", *CHANGING}),
    "no MULTI": ("+@all -multi ~*", None),
}


@pytest.fixture
def as_user(redis_client: redis.Redis, server: PrivateServer) -> Callable[[str], str]:
    """Make a user of these rights and no others; return the URL."""

    def url(rules: str) -> str:
        try:
            redis_client.execute_command("ACL", "SETUSER", "watcher", "reset", "on", ">secret", *rules.split())
        except redis.ResponseError:
            pytest.skip("this server does not know such rules")
        return server.url.replace("//", "//watcher:secret@")

    return url


def run_each(emqctl: Emqctl, client: redis.Redis, url: str, folder: Path) -> dict[str, list[Result]]:
    """Run a command line of each kind of change, and every one that looks, on the recorded world."""
    payload = folder / "payload"
    payload.write_text("{}")
    found: dict[str, list[Result]] = {"look": [emqctl(*words, url=url) for words in LOOKING]}
    changed = True
    for kind, words in CHANGING.items():
        if changed:
            client.flushdb()
            worlds.load_world(client)
        places = {
            "{waiting}": client.zrange("emq:{orders}:pending", 0, 0)[0].decode(),
            "{lapsed}": client.zrange("emq:{orders}:active", 0, 0)[0].decode(),
            "{scheduled}": client.zrange("emq:{orders}:schedule", -1, -1)[0].decode(),
            "{in lane}": client.zrange(f"emq:{{emails}}:g:{LANE}:pending", 0, 0)[0].decode(),
            "{payload}": str(payload),
        }
        before = worlds.snapshot(client)
        result = emqctl(*(places.get(word, word) for word in words), url=url)
        changed = {key: value.content for key, value in worlds.snapshot(client).items()} != {
            key: value.content for key, value in before.items()
        }
        assert changed == (result.code != 8) or kind in BROAD, (kind, result.summary)
        found[kind] = [result]
    return found


def test_the_readme_gives_the_rights_of_an_observer_and_an_operator() -> None:
    readme = Path(__file__).parents[2].joinpath("README.md").read_text("utf-8")
    assert [name for name in ("an observer", "an operator") if f"`{USERS[name][0]}`" not in readme] == []


@pytest.mark.parametrize(("rules", "may_not"), USERS.values(), ids=USERS)
def test_what_it_says_of_a_user_is_true(
    emqctl: Emqctl,
    redis_client: redis.Redis,
    as_user: Callable[[str], str],
    tmp_path: Path,
    rules: str,
    may_not: set[str] | None,
) -> None:
    """What may be run works; of what may not, a command line is denied and changes nothing."""
    worlds.load_world(redis_client)
    url = as_user(rules)
    [said] = emqctl("ping", "-o", "jsonl", url=url).records
    if may_not is None:
        assert (said["may"], said["may_not"]) == (None, None)
        return
    assert set(said["may_not"]) == may_not
    assert set(said["may"]) == {"look", *CHANGING} - may_not
    # before 7.0 a program cannot ask for itself, and emqctl asks for more than some of them send
    unsure = {"remove", "fix"} if int(redis_client.info("server")["redis_version"].split(".")[0]) < 7 else set()
    for kind, results in run_each(emqctl, redis_client, url, tmp_path).items():
        denied = [result.code == 8 for result in results]
        # a listing of several queues shows what it may not read in their rows
        denied += ["! denied" in result.out for result in results]
        if kind not in unsure | (BROAD & may_not):
            assert any(denied) == (kind in may_not), (kind, [result.summary for result in results if result.code])


def test_the_rule_it_names_is_the_one_that_is_missing(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, as_user: Callable[[str], str]
) -> None:
    """Granting what is named, one rule after the other, ends in a user who may do everything."""
    url = as_user("+multi +discard +get +hello +ping ~{emq}:*")
    for _ in range(100):
        [said] = emqctl("ping", "-o", "jsonl", url=url).records
        if not said["may_not"]:
            break
        for rule in set(said["may_not"].values()):
            assert re.fullmatch(r"\+[a-z|]+( ~\S+)?", rule)
            redis_client.execute_command("ACL", "SETUSER", "watcher", *rule.split())
    assert set(said["may"]) == {"look", *CHANGING}


def test_the_list_of_what_looking_sends_is_what_looking_sends(
    emqctl: Emqctl, world: worlds.World, monitor: wire.Monitor
) -> None:
    """A command that looks and sends something new belongs into ``permissions.LOOK``."""
    with monitor() as commands:
        for words in LOOKING:
            if words != ("ping",):
                emqctl(*words)
    sent = {command[0].decode().upper() for command in commands}
    optional = {
        "TIME",
        "TYPE",
        "MULTI",
        "EXEC",
        "INFO",
        "CLUSTER",
        "HPTTL",
    }  # without them answers are weaker, with a note
    assert sent - optional == set(permissions.LOOK)


def test_every_kind_of_change_is_run_here() -> None:
    assert set(permissions.changes()) == set(CHANGING)


@pytest.mark.parametrize("output", FORMATS)
def test_output_is_known(emqctl: Emqctl, world: worlds.World, golden: Callable[[str, str], None], output: str) -> None:
    """Times, versions and the address are those of the server at hand."""
    [said] = emqctl("ping", "-o", "jsonl").records
    result = emqctl("ping", "-o", output)
    text = result.out.replace(emqctl.url, "redis://SERVER/0")
    for name in ("kind", "version"):
        text = re.sub(rf"\b{re.escape(said[name])}\b(?!://)", name.upper(), text)
    text = re.sub(r"(?<![\d.])\d+\.\d+(?![\d.])", "0.1", text, count=1)
    golden(f"ping.one.{output}", f"$ emqctl ping -o {output}\n{text}{result.err}[exit {result.code}]\n")


def test_machines_get_every_field_in_order(emqctl: Emqctl, world: worlds.World) -> None:
    [said] = emqctl("ping", "-o", "jsonl").records
    assert list(said) == FIELDS
    assert isinstance(said["round_trip_ms"], float)
    assert emqctl("ping", "-o", "csv").lines[0] == ",".join(FIELDS)
    assert emqctl("ping", "--columns", "database,known,user").out == "0\ttrue\tdefault\n"


def test_a_database_without_echomq_is_no_error(emqctl: Emqctl, redis_client: redis.Redis) -> None:
    result = emqctl("ping", "--columns", "wire_version,known,may")
    assert result.code == 0
    assert result.out.startswith("-\t-\tlook,")
    assert result.err.count("note: ") == 1
    assert "6390" in result.err
    assert emqctl("ping", "-q").err == ""


def test_it_may_be_run_read_only_and_changes_nothing(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis
) -> None:
    before = worlds.snapshot(redis_client)
    assert emqctl("ping", "--read-only").code == 0
    after = worlds.snapshot(redis_client)
    assert {key: value.content for key, value in after.items()} == {key: value.content for key, value in before.items()}


def test_no_server_and_no_password_are_told_as_everywhere(
    emqctl: Emqctl, redis_client: redis.Redis, server: PrivateServer
) -> None:
    assert emqctl("ping", url=f"redis://127.0.0.1:{refused_port()}/0").code == 6
    redis_client.config_set("requirepass", "secret")
    result = emqctl("ping")
    assert (result.code, result.out) == (8, "")
    assert "wants a password" in result.err
    assert emqctl("ping", url=server.url.replace("//", "//:wrong@")).code == 8
    answered = emqctl("ping", "--columns", "user,server", url=server.url.replace("//", "//:secret@"))
    assert answered.out == f"default\t{server.url.replace('//', '//***@')}\n"
