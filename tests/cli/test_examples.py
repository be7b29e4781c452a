"""The examples of help and man pages, run in the sample world; what they print as JSON keeps to its schema."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import generate
import pytest
import redis
from cli.running import Emqctl, EmqctlProcess, Result
from jsonschema import Draft202012Validator

from emqctl import schemas
from emqctl.cli import complete
from emqctl.cli.root import COMMANDS
from emqctl.listing import STATES

JOB, LANE = "JOB0Nb1VTbfnu4", "TEN0IlTd9mDCbY"  # as examples write them; the sample world has others
KEYS = {"pending": "pending", "active": "active", "scheduled": "schedule", "dead": "dead"}
STAYS_UP = "emqctl demo"
#: Exit codes of commands that the sample world does not always let end with 0.
CODES = {"doctor": {9}, "obliterate": {0, 5}}  # leases have lapsed and nobody reaps; jobs are in flight

EXAMPLES = [example for name in COMMANDS for example in generate.commands()[name].examples]

Run = Callable[..., Result]


def line_of(example: str) -> str:
    """Return the command line of emqctl in an example for a shell."""
    inner = re.search(r"\$\((.*)\)", example)
    return inner[1] if inner else example.partition(" > ")[0]


def name_of(example: str) -> str:
    return shlex.split(line_of(example))[1]


def job_for(name: str, queue: str, client: redis.Redis) -> str:
    """Return a job of the sample world that a command takes."""
    for state in complete.STATES.get(name, STATES):
        found = client.zrange(f"emq:{{{queue}}}:{KEYS[state]}", 0, 0)  # of active ones, the first to lapse
        if found:
            return bytes(found[0]).decode()
    raise AssertionError(f"no job for {name} in {queue}")


@pytest.fixture
def run(
    emqctl: Emqctl, redis_client: redis.Redis, demo_world: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """Run an example at a terminal where every question is answered, with more words after it."""
    lane = redis_client.lindex("emq:{emails}:ring", 0).decode()
    (tmp_path / "fixed.json").write_text('{"order": 1}')
    (tmp_path / "editor").write_text('#!/bin/sh\necho changed > "$1"\n')
    (tmp_path / "editor").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    variables = {"XDG_STATE_HOME": str(tmp_path), "VISUAL": str(tmp_path / "editor")}

    def run(example: str, *more: str) -> Result:
        program, *words = shlex.split(line_of(example))
        assert program == "emqctl"
        queue = words[1] if words[1:] and words[1] in {"orders", "emails"} else "orders"
        asks_a_server = words[0] not in {"id", "key"}
        if asks_a_server and JOB in words:
            words = [job_for(words[0], queue, redis_client) if word == JOB else word for word in words]
        words = [lane if word == LANE else word for word in words]
        if words[0] == "journal":
            emqctl("pause", "orders", env=variables)
        answer = b"orders\n" if words[0] == "obliterate" else b"yes\n"
        return emqctl(*words, *more, stdin=answer, tty=True, columns=200, env=variables)

    return run


@pytest.mark.parametrize("example", [example for example in EXAMPLES if not example.startswith(STAYS_UP)])
def test_an_example_does_what_it_is_there_for(run: Run, example: str) -> None:
    result = run(example)
    assert result.code in CODES.get(name_of(example), {0}), result.err
    assert result.out or result.err or name_of(example) == "journal"


@pytest.mark.parametrize("example", [example for example in EXAMPLES if example.startswith(f"{STAYS_UP} ")])
def test_an_example_of_the_demo_brings_its_own_server(emqctl_process: EmqctlProcess, example: str) -> None:
    result = emqctl_process(*shlex.split(example)[1:], url=None)
    assert (result.code, result.err) == (0, result.err)
    assert result.out


@pytest.mark.parametrize("example", [example for example in EXAMPLES if name_of(example) in schemas.names()])
def test_what_an_example_prints_as_json_keeps_to_its_schema(run: Run, example: str) -> None:
    if "--raw" in example or example.startswith("emqctl schema "):
        return  # no records
    name = name_of(example)
    schema = deepcopy(json.loads(schemas.text(name)))
    schema["additionalProperties"] = schema["$defs"]["record"]["additionalProperties"] = False
    result = run(example, "-o", "json")
    assert result.stdout or result.code in CODES[name] - {0}
    if result.stdout:
        Draft202012Validator(schema).validate(result.json)


def test_examples_are_two_or_three_a_command() -> None:
    counts = {name: len(generate.commands()[name].examples) for name in COMMANDS}
    assert {name: count for name, count in counts.items() if not 2 <= count <= 3} == {}
