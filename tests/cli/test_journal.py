"""The journal: what was asked before it was sent, what came of it, and nothing that is secret."""

from __future__ import annotations

import json
import stat
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
import worlds
from cli.running import Emqctl, EmqctlProcess
from wire import Proxy

from emqctl import journal
from emqctl.changes import BATCH


@pytest.fixture
def state(tmp_path: Path) -> dict[str, str]:
    """Variables of an operator with a state folder of its own."""
    return {"XDG_STATE_HOME": str(tmp_path)}


def lines(state: dict[str, str]) -> list[dict[str, object]]:
    path = Path(state["XDG_STATE_HOME"], "emqctl", "journal.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_change_is_written_before_it_is_sent_and_completed_after(
    emqctl: Emqctl, world: worlds.World, state: dict[str, str]
) -> None:
    emqctl("requeue", "orders", "--error", "card declined", "--yes", "--note", "ticket 7", env=state)
    emqctl("pause", "orders", env=state)
    assert [entry["phase"] for entry in lines(state)] == ["begin", "end"] * 3
    requeue, rest, pause = emqctl("journal", "-o", "json", env=state).records
    assert (requeue["command"], requeue["queue"], requeue["state"], requeue["note"]) == (
        *("requeue", "orders", "done"),
        "ticket 7",
    )
    assert requeue["results"] == {"moved": len(requeue["jobs"])} == {"moved": BATCH}
    assert rest["results"] == {"moved": len(rest["jobs"])} == {"moved": 1}
    assert (rest["run"], rest["batch"]) == (requeue["run"], 2)
    assert (pause["command"], pause["jobs"], pause["results"]) == ("pause", [], {"paused": 1})


def test_it_is_for_its_owner_alone_and_holds_no_payload_and_no_secret(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, state: dict[str, str]
) -> None:
    redis_client.execute_command("ACL", "SETUSER", "op", "on", ">s3cret", "~*", "&*", "+@all")
    url = emqctl.url.replace("redis://", "redis://op:s3cret@")
    emqctl("edit", "orders", "JOB0JXc5YNUBkm", "--payload", "-", stdin=b"topsecretpayload", url=url, env=state)
    emqctl("remove", "orders", "--state", "dead", "--all", "--yes", url=url, env=state)
    path = Path(state["XDG_STATE_HOME"], "emqctl", "journal.jsonl")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text = path.read_text()
    assert "s3cret" not in text
    assert "topsecretpayload" not in text
    assert '"order"' not in text
    assert "***@" in text


def test_a_dry_run_and_a_look_are_not_written_down(emqctl: Emqctl, world: worlds.World, state: dict[str, str]) -> None:
    emqctl("requeue", "orders", "--all", "--dry-run", env=state)
    emqctl("browse", "orders", env=state)
    assert not Path(state["XDG_STATE_HOME"], "emqctl").exists()


def test_a_lost_answer_stands_as_what_may_or_may_not_have_been_applied(
    emqctl: Emqctl, world: worlds.World, proxy: Proxy, state: dict[str, str]
) -> None:
    emqctl("requeue", "orders", "JOB0JKKc6VjgKu", env=state)
    proxy.cut_down = 400  # the answers that come before the program's
    cut = emqctl("remove", "orders", "--state", "dead", "--all", "--yes", url=proxy.url, env=state)
    assert cut.code == 6
    unanswered = emqctl("journal", "--unanswered", "-o", "json", env=state).records
    for change in unanswered:
        assert (change["command"], change["state"], change["results"]) == ("remove", "unanswered", {})
        assert change["jobs"]


def test_a_killed_run_leaves_its_last_batch_open(
    emqctl: Emqctl, emqctl_process: EmqctlProcess, world: worlds.World, keeper: redis.Redis, state: dict[str, str]
) -> None:
    keeper.execute_command("CLIENT", "PAUSE", "60000", "WRITE")
    try:
        with emqctl_process.start("requeue", "orders", "--all", "--yes", env=state) as process:
            path = Path(state["XDG_STATE_HOME"], "emqctl", "journal.jsonl")
            while not path.exists() or not path.read_text():
                assert process.poll() is None
            process.kill()
            process.wait(10)
    finally:
        keeper.execute_command("CLIENT", "UNPAUSE")
    emqctl("pause", "orders", env=state)
    assert [each["command"] for each in emqctl("journal", "-o", "json", env=state).records] == ["requeue", "pause"]
    [change] = emqctl("journal", "--unanswered", "-o", "json", env=state).records
    assert (change["command"], change["state"], len(change["jobs"])) == ("requeue", "unanswered", BATCH)


def test_where_nothing_can_be_written_the_change_goes_on_with_a_note(
    emqctl: Emqctl, world: worlds.World, redis_client: redis.Redis, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    result = emqctl("pause", "orders", env={"XDG_STATE_HOME": str(tmp_path / "file")})
    assert result.code == 0
    assert "no journal is kept" in result.err
    assert redis_client.hexists("emq:{orders}:meta", "paused")


def test_it_lists_by_queue_command_job_and_time(emqctl: Emqctl, world: worlds.World, state: dict[str, str]) -> None:
    emqctl("requeue", "orders", "JOB0JKKc6VjgKu", env=state)
    emqctl("pause", "emails", env=state)
    emqctl("resume", "emails", env=state)

    def commands(*words: str) -> list[str]:
        return [change["command"] for change in emqctl("journal", *words, "-o", "json", env=state).records]

    assert commands() == ["requeue", "pause", "resume"]
    assert commands("--queue", "emails") == ["pause", "resume"]
    assert commands("--command", "pause") == ["pause"]
    assert commands("--id", "JOB0JKKc6VjgKu") == ["requeue"]
    assert commands("-n", "1") == ["resume"]
    assert commands("--since", "1h") == ["requeue", "pause", "resume"]
    assert commands("--until", "1h") == []


def test_two_pens_at_once_never_garble_it(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"

    def write(run: int) -> None:
        pen = journal.Journal(
            path, {"command": "requeue", "server": "s", "queue": f"q{run}", "lane": None, "note": None}
        )
        for _ in range(50):
            pen.begin([f"JOB{run}"] * 100)
            pen.end([(f"JOB{run}", "moved", None, "dead", "pending")] * 100)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(write, range(8)))
    changes = list(journal.read(path))
    assert len(changes) == 8 * 50
    assert {(change.state, tuple(change.results.items())) for change in changes} == {("done", (("moved", 100),))}


def test_a_large_one_is_turned_over_and_still_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "ROTATE_BYTES", 2000)
    path = tmp_path / "journal.jsonl"
    pen = journal.Journal(path, {"command": "reap", "server": "s", "queue": "q", "lane": None, "note": None})
    for number in range(40):
        pen.begin([f"JOB{number}"])
        pen.end([(f"JOB{number}", "moved", None, None, None)])
    files = sorted(file.name for file in tmp_path.glob("*.jsonl"))
    assert files == ["journal.1.jsonl", "journal.2.jsonl", "journal.3.jsonl", "journal.4.jsonl", "journal.jsonl"]
    assert [change.jobs for change in journal.read(path)][-3:] == [("JOB37",), ("JOB38",), ("JOB39",)]


def test_a_line_that_is_cut_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "journal.jsonl"
    pen = journal.Journal(path, {"command": "reap", "server": "s", "queue": "q", "lane": None, "note": None})
    pen.begin(["JOB1"])
    path.write_text(path.read_text() + '{"phase": "end", "batch": 1, "ru\n[1]\nnull\n')
    assert [change.state for change in journal.read(path)] == ["unanswered"]


def test_nobody_has_to_have_a_home(emqctl_process: EmqctlProcess, world: worlds.World) -> None:
    with emqctl_process.start(
        "pause", "orders", env={"HOME": None, "XDG_STATE_HOME": None}, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        _, err = process.communicate(timeout=20)
    assert process.returncode == 0
    assert b"no journal is kept: neither XDG_STATE_HOME nor HOME is set" in err
