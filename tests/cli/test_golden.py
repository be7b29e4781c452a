"""What each command prints in each format, whole, on the recorded world: see tests/cli/golden."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
import redis
import worlds
from cli.conftest import GOLDEN
from cli.running import Emqctl

from emqctl import times
from emqctl.render import FORMATS

JOB, LANE = "JOB0JN69V5ZlNQ", "TEN0IlTd9mDCbY"

CASES = {
    "key.set": "key orders pending",
    "key.job": f"key orders job {JOB} logs",
    "key.parse": f"key --parse emq:{{orders}}:job:{JOB}:lock emq:{{emails}}:g:{LANE}:pending {{emq}}:version session:1",
    "slot.one": "slot orders",
    "slot.several": "slot orders emails emq:{orders}:pending 123456789",
    "id.one": f"id {JOB}",
    "id.several": f"id {JOB} {LANE} USR0KHTOWnGLuC",
    "id.at": "id --at 2026-01-27T15:11:37.641Z",
    "depth.one": "depth orders",
    "depth.all": "depth",
    "depth.states": "depth orders emails idle broken wrongtype --states",
    "browse.pending": "browse orders -n 5",
    "browse.lanes": "browse emails -n 12",
    "browse.lane": f"browse emails --lane {LANE} -n 3 --reverse",
    "browse.active": "browse orders --state active",
    "browse.scheduled": "browse orders --state scheduled -n 10",
    "browse.dead": "browse orders --state dead --reverse -n 4",
    "browse.payload": "browse orders --payload --until 2025-12-31T22:51:12Z -n 4",
    "browse.broken": "browse broken",
    "browse.nothing": "browse idle",
}
#: Ages and what is left of a lease are no facts of the world; moments that moved with it are named by their distance.
LEASE = re.compile(r'("lease_ms": )-?\d+|(?<=Z,)-?\d+(?=,(?:true|false))|(?<=Z\t)-?\d+(?=\t(?:true|false))')


def moved(world: worlds.World, client: redis.Redis) -> dict[str, str]:
    """Return the printed moments that depend on when the world was loaded, each with a name as long."""
    names = {}
    for key in client.scan_iter(match="emq:{*}:[as]c*"):
        if client.type(key) == b"zset":
            for _, score in client.zscan_iter(key):
                moment = times.from_ms(int(score))
                assert moment
                distance = (int(score) - world.now_ms) // 1000
                far = "epoch" if abs(distance) > 10**9 else f"{distance:+} s"
                names[times.rfc3339(moment)] = f"<now {far}>".ljust(24, ".")
    return names


@pytest.mark.parametrize("output", FORMATS)
@pytest.mark.parametrize("case", CASES)
def test_output_is_known(
    emqctl: Emqctl,
    world: worlds.World,
    redis_client: redis.Redis,
    golden: Callable[[str, str], None],
    case: str,
    output: str,
) -> None:
    words = CASES[case].split()
    columns = ["--columns", "id,minted,attempts,lane,deadline,lapsed,payload_bytes,preview"]
    drawn = [*columns, "--time", "iso"] if case == "browse.active" and output == "table" else ["--time", "iso"]
    result = emqctl(*words, "-o", output, *(drawn if output == "table" else []))
    text = "".join([f"$ emqctl {CASES[case]} -o {output}\n", result.out, result.err, f"[exit {result.code}]\n"])
    text = LEASE.sub(r"\g<1>0", text.replace(emqctl.url, "redis://SERVER/0"))
    for moment, name in moved(world, redis_client).items():
        text = text.replace(moment, name)
    golden(f"{case}.{output}", text)


def test_every_golden_file_belongs_to_a_case() -> None:
    known = {f"{case}.{output}.txt" for case in CASES for output in FORMATS}
    commands = {case.partition(".")[0] for case in CASES}
    assert {path.name for path in GOLDEN.iterdir() if path.name.partition(".")[0] in commands} == known
