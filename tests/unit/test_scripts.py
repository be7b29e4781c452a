"""The programs sent to a server: what their headers promise, and that keys are spelled in one of them alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from hashlib import sha1
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest
import redis
import worlds

from emqctl import branded, control, keyspace, moves, repairs, replies, scripts
from emqctl.changes import Pace, apply
from emqctl.keyspace import QueueKeys
from emqctl.replies import Command
from emqctl.requeue import Options, requeue
from emqctl.scripts import Program
from emqctl.selection import Target

FOLDER = Path(scripts.__file__).parent
FILES = {path.stem: path.read_text("utf-8") for path in sorted(FOLDER.glob("*.lua"))}
PROGRAMS = [name for name in FILES if name not in scripts.SHARED]
SHARED = "".join(FILES[name] for name in scripts.SHARED)
QUEUE = "eu-west.orders:v2 ü"  # outside the grammar, on purpose
KEYS = QueueKeys(QUEUE)
JOB = b"JOB0NgWEfAEJfs"

#: Locals of keys.lua whose word in the protocol is another, mostly since Lua took it.
OTHER_WORD = {"repeats": "repeat", "outbox": "flow:outbox"}
WRITES = {
    *("ZADD", "ZREM", "HSET", "HDEL", "HINCRBY", "RPUSH", "LPUSH", "LTRIM", "LREM"),
    *("SADD", "SREM", "DEL", "SET"),
}
TOKEN = re.compile(r"--\[(=*)\[.*?\]\1\]|--[^\n]*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"", re.DOTALL)
SUFFIX = re.compile(
    rf"(?:^|:)(?:{'|'.join({*keyspace.JOB_SUBS, 'pending', 'archived'})})$|^(?:job|g|de|repeat|stream):"
)


class Asked(NamedTuple):
    """How a program was called for one job, and which commands were probed first."""

    keys: Sequence[bytes]
    words: Sequence[bytes | str]
    writes: Sequence[Command]


class Stub:
    """A server that does everything it is asked, once permissions were probed; keeps how programs are called."""

    shown = "redis://stub/0"

    def __init__(self) -> None:
        self.asked: dict[str, Asked] = {}
        self._writes: Sequence[Command] = ()

    def ask(self, *commands: Command) -> list[int]:
        """Answer that everything exists."""
        return [1] * len(commands)

    def may_run(self, commands: Sequence[Command]) -> None:
        """Allow everything."""
        self._writes = commands

    def run(self, program: Program, keys: Sequence[bytes], words: Sequence[Any]) -> Any:
        """Ask for a probe first, then answer for one job."""
        assert program is scripts.program(program.name)
        if "p" not in words[0]:
            raise replies.NeedsProbe("x")
        self.asked[program.name] = Asked(keys, words, self._writes)
        return [[b"moved", b"", b"dead", b"pending", b"", b"1"]]


@cache
def asked() -> dict[str, Asked]:
    """Call every change with all it can be told; return how its program was called."""
    server = Stub()
    queue: Any = SimpleNamespace(server=server, keys=KEYS)
    how, pace, lane = moves.How(force=True, dry_run=True), Pace(), branded.parse("TEN0NgWEfAEJfs")
    pages = [[Target(JOB, b"3", bytes(lane))]]
    batches = (
        requeue(queue, pages, Options(force=True, reset_attempts=True, dry_run=True), pace),
        moves.reap(queue, pages, how, pace),
        moves.promote(queue, pages, how, pace, due=True),
        moves.bury(queue, pages, how, pace, reason="x"),
        moves.move(queue, pages, how, pace, group=lane),
        moves.remove(queue, pages, how, pace, state="dead", dedup=b"x"),
    )
    for each in batches:
        assert len(list(each)) == 1
    for each in repairs.REPAIRS:
        change = each.change(KEYS, dry_run=True)
        assert len(list(apply(queue, change, [[Target(JOB, lane=bytes(lane))]], pace))) == 1
    moves.edit(queue, branded.parse(JOB), b"old", b"new", how)
    assert control.limit(queue, lane, 3, dry_run=True)
    return server.asked


def header(name: str) -> str:
    """Return the comment a file begins with, as one line a paragraph."""
    lines = FILES[name].partition("\n\n")[0].splitlines()
    assert all(line.startswith("--") for line in lines)
    return re.sub(r"\n {3,}", " ", "\n".join(line[3:] for line in lines))


def code(name: str) -> str:
    """Return a file without its comments."""
    return TOKEN.sub(lambda found: "" if found[0].startswith("--") else found[0], FILES[name])


def literals(name: str) -> list[str]:
    return [found[0][1:-1] for found in TOKEN.finditer(FILES[name]) if not found[0].startswith("--")]


def test_every_program_has_a_caller_and_every_caller_a_program() -> None:
    assert set(asked()) == {name for name in PROGRAMS if not name.startswith("obliterate")}  # several, round by round


def test_a_program_is_the_shared_pieces_and_its_own_file_under_the_hash_of_just_that() -> None:
    for name in PROGRAMS:
        program = scripts.program(name)
        assert program.text == "".join(FILES[piece] for piece in (*scripts.SHARED, name))
        assert program.sha == sha1(program.text.encode()).hexdigest()


@pytest.mark.parametrize("name", FILES)
def test_a_file_says_in_its_first_line_what_it_is_for(name: str) -> None:
    assert re.match(r"-- [A-Z].*[.:,a-z]$", FILES[name].splitlines()[0])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_header_names_the_keys_the_arguments_and_the_answer(name: str) -> None:
    text = header(name)
    assert re.findall(r"KEYS\[(\d+)\]", text) == ["1", "2"]  # the pair without which a moving slot is half seen
    arguments = re.findall(r"ARGV\[([\d.]+)\]", text)
    assert [int(nth.rstrip(".")) for nth in arguments] == list(range(1, len(arguments) + 1))
    assert re.search(r"^Returns ", text, re.MULTILINE)
    assert re.search(r"^Errors ", text, re.MULTILINE)
    used = {int(nth) for nth in re.findall(r"\bARGV\[(\d+)\]", code(name))}
    assert max({*used, 1}) <= len(arguments)


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "each_job(" in code(name)])
def test_a_program_of_a_batch_answers_job_by_job_what_stands_three_words_a_job(name: str) -> None:
    first, words = re.findall(r"^ARGV\[(\d)\.\.\.\] per (?:job|lane|member): (.*)$", header(name), re.MULTILINE)[0]
    assert len(words.split(", ")) == 3
    assert re.findall(r"each_job\((\d)", code(name)) == [first]
    assert re.search(r"^Returns one answer a (?:job|lane|member), in order", header(name), re.MULTILINE)


@pytest.mark.parametrize("name", asked())
def test_what_the_caller_passes_is_what_the_header_says(name: str) -> None:
    keys, words, _ = asked()[name]
    documented = re.findall(r"ARGV\[(\d+)(\.\.\.)?\]", header(name))
    first = int(documented[-1][0]) - 1 if documented[-1][1] else len(documented)
    assert len(words) == first + (3 if documented[-1][1] else 0)
    steps = {step for piece in (*scripts.SHARED, name) for step in re.findall(r"#ARGV, (\d+) do", code(piece))}
    assert steps <= {"3"}
    assert keys[0] == KEYS.prefix
    [second] = re.findall(r"^KEYS\[2\] (.*)$", header(name), re.MULTILINE)
    spelled = re.match(r"emq:\{q\}:(\S+) [A-Z]+(?:,|$)", second)
    if spelled:
        suffix = spelled[1].replace("<group>", "TEN0NgWEfAEJfs").replace("<id>", JOB.decode())
        assert keys[1] == KEYS.prefix + suffix.encode()


@pytest.mark.parametrize("name", asked())
def test_the_flags_of_the_header_are_those_the_program_reads_and_the_caller_sends(name: str) -> None:
    [flags] = re.findall(r"^ARGV\[1\] flags, letters of: (.*)$", header(name), re.MULTILINE)
    letters = {flag.split()[0] for flag in flags.split(", ")}
    read = {letter for piece in (*scripts.SHARED, name) for letter in re.findall(r"\bflagged\('(\w+)'\)", code(piece))}
    assert read >= letters
    assert set(asked()[name].words[0]) == letters


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_errors_of_the_header_are_those_the_program_can_raise_and_the_client_knows(name: str) -> None:
    raised = {word for piece in (*scripts.SHARED, name) for word in re.findall(r"error_reply\('(\w+)", code(piece))}
    [errors] = re.findall(r"^Errors +(.*)$", header(name), re.MULTILINE)
    assert set(re.findall(r"EMQ\w+", errors)) == raised
    assert raised <= set(replies._OURS)


def reachable(name: str) -> str:
    """Return the code of a program with the shared functions that it uses, and they use."""
    chunks = re.split(r"^(?=local function )", "".join(map(code, scripts.SHARED[1:])), flags=re.MULTILINE)
    functions = {chunk.removeprefix("local function ").partition("(")[0]: chunk for chunk in chunks[1:]}
    used, new = "", code(name)
    while new:
        used += new
        names = [each for each in functions if re.search(rf"\b{each}\b", used)]
        new = "".join(functions.pop(each) for each in names)
    return used


@pytest.mark.parametrize("name", asked())
def test_each_write_of_a_program_is_one_whose_permission_is_asked_for_first(name: str) -> None:
    used = reachable(name)
    called = set(re.findall(r"\bcall\('(\w+)'", used)) & WRITES
    assert len(called) >= 1
    assert set(re.findall(r"\{ '([A-Z]+)', ", "".join(map(code, (*scripts.SHARED, name))))) >= called
    assert {str(command[0]) for command in asked()[name].writes} >= called


def test_keys_lua_spells_exactly_the_keys_of_the_keyspace(redis_client: redis.Redis) -> None:
    spelled = dict(re.findall(r"^local (\w+) = KEYS\[1\] .. '[^']+' -- ([\w/]+)", FILES["keys"], re.MULTILINE))
    assert len(spelled) == FILES["keys"].count("= KEYS[1] ..")
    found = redis_client.eval(f"{FILES['keys']}\nreturn {{ {', '.join(spelled)} }}", 1, KEYS.prefix)
    words = [OTHER_WORD.get(local, local) for local in spelled]
    assert found == [KEYS.fixed(word) for word in words]
    types = [
        {"ZSET": "zset", "LIST": "list", "SET": "set", "HASH": "hash", "pub/sub": "channel"}[t]
        for t in spelled.values()
    ]
    assert types == [keyspace.FIXED[word] for word in words]


@pytest.mark.parametrize(
    ("function", "name", "key"),
    [
        ("row_of", "JOB0NgWEfAEJfs", KEYS.job(branded.parse("JOB0NgWEfAEJfs"))),
        ("lane_of", "TEN0NgWEfAEJfs", KEYS.lane(branded.parse("TEN0NgWEfAEJfs"))),
        ("record_of", "naïve name/with:colon", KEYS.repeat("naïve name/with:colon".encode())),
        ("dedup_of", "order-1.2_3", KEYS.dedup(b"order-1.2_3")),
    ],
)
def test_a_named_key_is_built_as_the_keyspace_builds_it(
    redis_client: redis.Redis, function: str, name: str, key: bytes
) -> None:
    assert redis_client.eval(f"{FILES['keys']}\nreturn {function}(ARGV[1])", 1, KEYS.prefix, name) == key


def test_the_keys_below_a_row_are_those_of_the_keyspace(redis_client: redis.Redis) -> None:
    subs = redis_client.eval(f"{FILES['keys']}\nreturn JOB_SUBS", 1, KEYS.prefix)
    assert {sub.decode() for sub in subs} == set(keyspace.JOB_SUBS)
    below = redis_client.eval(f"{FILES['keys']}\nreturn keys_below(row_of(ARGV[1]))", 1, KEYS.prefix, JOB)
    assert set(below) == {KEYS.job(branded.parse(JOB), sub) for sub in keyspace.JOB_SUBS}
    lock = redis_client.eval(f"{FILES['keys']}\nreturn below(row_of(ARGV[1]), 'lock')", 1, KEYS.prefix, JOB)
    assert lock == KEYS.job(branded.parse(JOB), "lock")


def test_every_function_of_keys_lua_is_looked_at_here() -> None:
    assert set(re.findall(r"^local function (\w+)", FILES["keys"], re.MULTILINE)) == {
        *("row_of", "below", "keys_below", "dedup_of", "lane_of", "record_of"),
        "now_ms",
    }


def test_now_is_the_servers_clock_in_milliseconds(redis_client: redis.Redis) -> None:
    before = worlds.server_ms(redis_client)
    now = redis_client.eval(f"{FILES['keys']}\nreturn now_ms()", 1, KEYS.prefix)
    assert before <= now <= worlds.server_ms(redis_client)


def test_the_own_queue_of_a_program_is_the_name_as_it_stands_in_the_key(redis_client: redis.Redis) -> None:
    assert redis_client.eval(f"{SHARED}\nreturn OWN_QUEUE", 1, KEYS.prefix, "").decode() == QUEUE


@pytest.mark.parametrize("name", [name for name in FILES if name != "keys"])
def test_no_other_file_spells_a_key(name: str) -> None:
    assert "KEYS[1] .." not in code(name)
    assert [text for text in literals(name) if SUFFIX.search(text) and ":" in text] == []


@pytest.mark.parametrize(
    ("text", "is_one"),
    [(":lock", True), ("job:", True), ("g:x", True), (":pending", True), ("failed", True), ("not-dead", False)],
)
def test_a_suffix_is_known_when_it_is_seen(text: str, is_one: bool) -> None:  # noqa: FBT001 - a table
    assert bool(SUFFIX.search(text)) is is_one


@pytest.mark.parametrize(
    "text",
    [
        *(b"JOB0NgWEfAEJfs", b"TEN00000000000", b"ABCAzL8n0Y58m7"),
        *(b"", b"JOB", b"job0NgWEfAEJfs", b"JO10NgWEfAEJfs", b"JOB0NgWEfAEJf", b"JOB0NgWEfAEJfss", b"JOB0NgWEfAEJf-"),
        *(b"JOB0NgWEfAEJf\n", b"JOB0NgWEfAEJ\xc3\xa9", "ÜOB0NgWEfAEJf".encode()),
        *(b"JOBAzL8n0Y58m8", b"JOBB0000000000", b"JOBzzzzzzzzzzz", b"JOBAzL8n0Y58lz", b"JOBAzL8n0Y58mA"),
    ],
)
def test_the_programs_know_a_branded_id_as_the_client_does(redis_client: redis.Redis, text: bytes) -> None:
    is_one = branded.is_branded(text)
    assert (
        bool(redis_client.eval(f"{SHARED}\nreturn is_branded(ARGV[2]) and 1 or 0", 1, KEYS.prefix, "", text)) is is_one
    )


@pytest.mark.parametrize(
    "text", ["0", "1", "12", "007", "00", "-1", "-0", "+1", "", " 1", "1 ", "1.0", "1e3", "0x1", "9" * 15, "9" * 19]
)
def test_a_count_is_what_the_server_itself_counts_on_from(redis_client: redis.Redis, text: str) -> None:
    """A claim raises `attempts` by HINCRBY; where that fails, the job is in no set any more (H34)."""
    redis_client.hset("row", "attempts", text)
    taken = redis_client.eval(f"{SHARED}\nreturn is_count(ARGV[2]) and 1 or 0", 1, KEYS.prefix, "", text)
    try:
        counts = redis_client.hincrby("row", "attempts", 1) > 0
    except redis.ResponseError:
        counts = False
    assert bool(taken) <= counts
    assert taken or text.strip() not in {"0", "1", "12", "9" * 15} or text != text.strip()
