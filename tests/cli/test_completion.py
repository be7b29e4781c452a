"""What a word may become: from the command tree, and from the server in the little time there is."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import generate
import pytest
import redis
from cli.running import DEADLINE_S, Emqctl, EmqctlProcess
from cli.stubs import silent

from emqctl import keyspace
from emqctl.cli import complete
from emqctl.cli.complete import Typing
from emqctl.cli.environment import Environment
from emqctl.cli.options import Parsed
from emqctl.cli.root import COMMANDS, GROUPS, group
from emqctl.cli.shells import SHELLS, VARIABLE, Bash
from emqctl.demo.server import PrivateServer
from emqctl.listing import STATES
from emqctl.render import FORMATS

Complete = Callable[..., list[str]]

#: Values of options and arguments that only the operator knows, by what help calls them.
FREE = {
    *("URL", "DURATION", "TIME", "TEXT", "REGEX", "HEX", "N", "N/s", "N|none", "VALUE", "DID", "NS"),
    "[ID]...",  # of `emqctl id`: any there is
}
TYPED_BY_HAND = {
    ("obliterate", "confirm"),  # that is what it is for
    ("journal", "job"),  # in a file of any size
}


@pytest.fixture
def completions(server: PrivateServer, monkeypatch: pytest.MonkeyPatch) -> Complete:
    """Return what a line that is being typed may go on with, its last word whole; without a hurry."""
    monkeypatch.setattr(complete, "SERVER_S", DEADLINE_S)

    def completions(line: str, url: str = server.url, seconds: float = DEADLINE_S, **variables: str) -> list[str]:
        typing = Typing(
            Environment({"EMQCTL_URL": url, **variables}, None, None, None), ends_at=time.monotonic() + seconds
        )
        monkeypatch.setenv("COMP_LINE", line)
        bash = Bash(group, {"obj": typing}, "emqctl", VARIABLE)
        return [item.value for item in bash.get_completions(*bash.get_completion_args())]

    return completions


def members(client: redis.Redis, queue: str, place: str) -> set[str]:
    return {member.decode() for member in client.zrange(f"emq:{{{queue}}}:{place}", 0, -1)}


@pytest.mark.parametrize("shell", SHELLS)
def test_completion_prints_the_script_of_a_shell(emqctl: Emqctl, shell: str) -> None:
    result = emqctl("completion", shell, url=None)
    assert (result.code, result.err) == (0, "")
    assert f"{VARIABLE}={shell}_complete" in result.out


def test_completion_knows_no_other_shell(emqctl: Emqctl) -> None:
    result = emqctl("completion", "tcsh", url=None)
    assert result.code == 2
    assert "'bash', 'zsh', 'fish'" in result.err


def test_commands_are_completed(completions: Complete) -> None:
    assert completions("emqctl ") == sorted(COMMANDS)
    assert completions("emqctl re") == sorted(name for name in COMMANDS if name.startswith("re"))
    assert completions("emqctl -o json browse orders --rev") == ["--reverse"]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_completed(completions: Complete, name: str) -> None:
    offered = completions(f"emqctl {name} -")
    for option in group.commands[name].params:
        if isinstance(option, click.Option):
            assert set(option.opts) <= set(offered)
    assert set(completions(f"emqctl {name} --output ")) == set(FORMATS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_value_is_completed_or_only_the_operator_knows_it(name: str) -> None:
    command = group.commands[name]
    context = click.Context(command)
    for parameter in command.params:
        is_flag = isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count)
        if is_flag or (name, parameter.name) in TYPED_BY_HAND:
            continue
        known = (
            parameter._custom_shell_complete is not None
            or isinstance(parameter.type, click.Choice)
            or (isinstance(parameter.type, Parsed) and parameter.type.completer is not None)
        )
        assert known or parameter.make_metavar(context) in FREE, f"{parameter} has no completions"


@pytest.mark.parametrize("name", [name for name in COMMANDS if generate.commands()[name].record])
def test_the_columns_of_a_command_are_completed(completions: Complete, name: str) -> None:
    columns = list(generate.commands()[name].columns)
    assert completions(f"emqctl {name} --columns ") == ["all", *columns]
    if len(columns) > 1:
        first, second = columns[:2]
        assert completions(f"emqctl {name} --columns {first},{second}") == [
            f"{first},{each}" for each in columns[1:] if each.startswith(second)
        ]


def test_states_are_completed(completions: Complete) -> None:
    assert completions("emqctl browse orders --state ") == list(STATES)
    assert completions("emqctl browse orders --state=de") == ["--state=dead"]


def test_keys_are_completed_by_what_is_typed_before(completions: Complete, redis_client: redis.Redis) -> None:
    redis_client.zadd("emq:{orders}:dead", {"JOB0Nb1VTbfnu4": 0})
    redis_client.rpush("emq:{orders}:ring", "TEN0IlTd9mDCbY")
    assert completions("emqctl key ") == ["orders"]
    assert set(completions("emqctl key orders ")) == {*keyspace.FIXED, *keyspace.NAMED}
    assert completions("emqctl key orders metrics:f") == ["metrics:failed", "metrics:failed:data"]
    assert completions("emqctl key orders job ") == ["JOB0Nb1VTbfnu4"]
    assert completions("emqctl key orders lane ") == ["TEN0IlTd9mDCbY"]
    assert completions("emqctl key orders job JOB0Nb1VTbfnu4 ") == list(keyspace.JOB_SUBS)
    assert completions("emqctl key orders stream events ") == ["archived"]
    assert completions("emqctl key orders dedup ") == []
    assert completions("emqctl key --parse ") == []
    assert completions("emqctl key --reserve ") == ["version", "locks", "bundle", "migration:"]
    assert completions("emqctl key --reserve migration:or") == ["migration:orders"]


def test_names_of_queues_are_those_with_a_key_and_not_typed_yet(completions: Complete, demo_world: int) -> None:
    assert completions("emqctl depth ") == ["emails", "frozen", "invoices", "orders"]
    assert completions("emqctl depth orders ") == ["emails", "frozen", "invoices"]
    assert completions("emqctl depth em") == ["emails"]
    assert completions("emqctl journal --queue fro") == ["frozen"]
    assert completions("emqctl inspect inv") == ["invoices"]
    assert completions("emqctl slot o") == ["orders"]


def test_lanes_are_those_of_the_queue_typed_before(
    completions: Complete, redis_client: redis.Redis, demo_world: int
) -> None:
    ring = {lane.decode() for lane in redis_client.lrange("emq:{emails}:ring", 0, -1)}
    for line in ("browse emails --lane ", "pause --lane ", "tune emails "):
        offered = set(completions(f"emqctl {line}"))
        assert offered >= ring if "emails" in line else offered == set()
    assert completions("emqctl browse orders --lane ") == []


def test_ids_are_those_in_the_state_a_command_takes(
    completions: Complete, redis_client: redis.Redis, demo_world: int
) -> None:
    places = {place: members(redis_client, "orders", place) for place in ("pending", "active", "schedule", "dead")}
    lapsed = {job.decode() for job in redis_client.zrange("emq:{orders}:active", 0, demo_world, byscore=True)}
    for line, expected in (
        ("requeue orders ", places["dead"]),
        ("promote orders ", places["schedule"]),
        ("reap orders ", lapsed),
        ("bury orders ", places["pending"] | places["schedule"]),
        ("inspect orders ", set().union(*places.values())),
        ("remove orders --state dead ", places["dead"]),
        ("browse orders --state dead --before ", places["dead"]),
        ("browse orders --before ", places["pending"]),
        ("edit orders ", set().union(*places.values())),
    ):
        offered = completions(f"emqctl {line}")
        assert offered, line
        assert len(set(offered)) == len(offered)
        assert set(offered) <= expected, line
    assert set(completions("emqctl promote orders ")) == places["schedule"]
    assert set(completions("emqctl reap orders ")) == lapsed


def test_an_id_is_found_by_its_beginning_and_not_offered_twice(
    completions: Complete, redis_client: redis.Redis, demo_world: int
) -> None:
    oldest = min(members(redis_client, "orders", "pending"))
    assert completions(f"emqctl inspect orders {oldest[:12]}") == [oldest]
    assert completions(f"emqctl inspect orders {oldest} {oldest[:12]}") == []
    assert completions("emqctl inspect orders JOBz") == []
    assert completions("emqctl inspect orders 0") == []


def test_jobs_in_lanes_are_offered_too(completions: Complete, redis_client: redis.Redis, demo_world: int) -> None:
    offered = completions("emqctl bury emails ")
    in_lanes = [key for key in redis_client.scan_iter(match="emq:{emails}:g:*") if redis_client.type(key) == b"zset"]
    assert offered
    assert set(offered) <= {job.decode() for key in in_lanes for job in redis_client.zrange(key, 0, -1)} | members(
        redis_client, "emails", "schedule"
    )


@pytest.mark.parametrize("queue", ["--all", "a b", "a$(b)", "a`b`", "a;b", "a*", "~", "a'", "\x1b[31m", "ä"])
def test_a_name_that_a_shell_could_read_otherwise_is_not_offered(
    completions: Complete, redis_client: redis.Redis, queue: str
) -> None:
    redis_client.zadd(f"emq:{{{queue}}}:pending", {"JOB0Nb1VTbfnu4": 0})
    redis_client.zadd("emq:{a:b.c-d_e}:pending", {"JOB0Nb1VTbfnu4": 0})
    assert completions("emqctl depth ") == ["a:b.c-d_e"]


def test_the_line_names_the_server_as_a_run_would(
    completions: Complete, server: PrivateServer, demo_world: int
) -> None:
    away = "redis://127.0.0.1:1/0"
    assert completions(f"emqctl --url {server.url} depth o", url=away) == ["orders"]
    assert completions(f"emqctl depth -u {server.url} o", url=away) == ["orders"]
    assert completions(f"emqctl depth --url={away} o") == []
    assert completions(f"emqctl depth --url={server.url[:-1]}7 o") == []


def test_passwords_are_taken_from_where_a_run_would_and_never_asked_for(
    completions: Complete, redis_client: redis.Redis, demo_world: int, tmp_path: Path
) -> None:
    redis_client.execute_command("ACL", "SETUSER", "default", "resetpass", ">s3cret")
    (tmp_path / "secret").write_text("s3cret\n")
    assert completions("emqctl depth o") == []
    assert completions("emqctl depth --askpass o") == []
    assert completions("emqctl depth o", EMQCTL_PASSWORD="s3cret") == ["orders"]
    assert completions(f"emqctl depth --password-file {tmp_path}/secret o") == ["orders"]


def test_the_line_of_a_demo_is_completed_without_a_server(completions: Complete, demo_world: int) -> None:
    assert completions("emqctl demo -- dep") == ["depth"]
    assert completions("emqctl demo -- browse orders --rev") == ["--reverse"]
    assert completions("emqctl demo -- browse ") == []


def test_what_changes_something_is_offered_to_the_journal(completions: Complete) -> None:
    assert completions("emqctl journal --command ") == [*GROUPS["Change"], *GROUPS["Control"]]


def test_variables_before_the_command_are_no_words_of_it(completions: Complete) -> None:
    assert completions("EMQCTL_OUTPUT=json X= emqctl dep") == ["depth"]


@pytest.mark.parametrize("line", ["emqctl --version ", "emqctl --help ", "emqctl depth --help "])
def test_nothing_is_printed_or_run_while_a_line_is_typed(
    completions: Complete, capfd: pytest.CaptureFixture[str], line: str
) -> None:
    completions(line, url="redis://127.0.0.1:1/0")
    assert capfd.readouterr() == ("", "")


def test_a_server_that_does_not_answer_is_not_waited_for(
    completions: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete, "SERVER_S", 0.1)
    with silent() as port:
        began = time.monotonic()
        assert completions("emqctl depth ", url=f"redis://127.0.0.1:{port}/0") == []
    assert time.monotonic() - began < 5


def test_a_name_that_is_not_resolved_is_not_waited_for(completions: Complete, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(complete, "SERVER_S", 0.1)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_words, **_options: time.sleep(DEADLINE_S))
    began = time.monotonic()
    assert completions("emqctl depth ", url="redis://nowhere.example/0") == []
    assert time.monotonic() - began < 5


def test_what_was_found_in_time_is_offered(
    completions: Complete, monkeypatch: pytest.MonkeyPatch, redis_client: redis.Redis
) -> None:
    """A scan of a large database goes on for longer than a TAB."""
    redis_client.mset({f"emq:{{q{number}}}:limiter": 1 for number in range(5000)})
    from emqctl import presence

    def pages(*arguments: Any) -> Iterator[Any]:
        for number, page in enumerate(key_pages(*arguments)):
            if number:
                time.sleep(DEADLINE_S)
            yield page

    key_pages = presence.key_pages
    monkeypatch.setattr(presence, "key_pages", pages)
    monkeypatch.setattr(complete, "SERVER_S", 1)
    assert 0 < len(completions("emqctl depth ")) < 5000


def test_no_time_is_left_to_ask_a_server(completions: Complete, demo_world: int) -> None:
    assert completions("emqctl depth ", seconds=-1) == []


@pytest.mark.parametrize(
    "line", ["emqctl dep", "emqctl browse orders --st", "emqctl browse -o ", "emqctl key orders pend"]
)
def test_a_word_of_the_command_tree_loads_neither_redis_nor_rich(server: PrivateServer, line: str) -> None:
    program = "import os, sys; from emqctl.cli import shells; shells.answer(os.environ); print(*sorted(sys.modules))"
    said = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "EMQCTL_URL": server.url, "COMP_LINE": line, VARIABLE: "bash_complete"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert said.stdout.startswith("plain\t")
    assert not {"redis", "hiredis", "rich", "ssl", "asyncio"} & set(said.stdout.split())


@pytest.mark.parametrize(
    "variables",
    [
        {"COMP_LINE": "emqctl depth "},
        {"COMP_LINE": "emqctl --columns nonsense -o nonsense depth "},
        {"COMP_LINE": "emqctl"},
        {"COMP_LINE": ""},
        {},
        {VARIABLE: "tcsh_complete", "COMP_LINE": "emqctl "},
        {VARIABLE: "nonsense"},
        {VARIABLE: ""},
    ],
)
@pytest.mark.parametrize("url", ["redis://127.0.0.1:1/0", "nonsense"])
def test_a_shell_gets_an_answer_or_nothing(emqctl_process: EmqctlProcess, variables: dict[str, str], url: str) -> None:
    result = emqctl_process(env={VARIABLE: "bash_complete", **variables}, url=url)
    assert (result.code, result.stderr) == (0, b"")
    assert "Traceback" not in result.out
