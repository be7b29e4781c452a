"""Run the tests on every server that ``tests/get-servers`` brings, and print a Markdown table.

python tests/matrix.py [ARGUMENT OF pytest ...]      default: tests/server tests/cli
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as ET

from emqctl.demo.server import BINARY_VARIABLE

HERE = Path(__file__).parent
DEFAULT = ("tests/server", "tests/cli")


@dataclass(frozen=True)
class Row:
    """What came of the tests on one server."""

    server: str
    passed: int
    failed: int
    skipped: int
    lines: tuple[str, ...]  # of tests that failed, and reasons of those that were skipped


def main(arguments: list[str]) -> int:
    """Bring the servers, run the tests on each, print the table and what did not pass; 1 if anything failed."""
    brought = subprocess.run([HERE / "get-servers"], stdout=subprocess.PIPE, text=True, check=False)
    servers = [line.split("\t") for line in brought.stdout.splitlines()]
    rows = [tested(f"{name.partition('-')[0]} {version}", program, arguments) for name, program, version in servers]
    table = ["| server | passed | failed | skipped |", "|---|--:|--:|--:|"]
    table += [f"| {row.server} | {row.passed} | {row.failed} | {row.skipped} |" for row in rows]
    others = [f"{row.server}: {line}" for row in rows for line in row.lines]
    sys.stdout.write("\n".join((*table, "", *others, "")))
    return int(bool(brought.returncode or any(row.failed for row in rows)))


def tested(server: str, program: str, arguments: list[str]) -> Row:
    """Run the tests on one server."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.xml")
        command = [sys.executable, "-m", "pytest", "-q", f"--junitxml={report}", *(arguments or DEFAULT)]
        environ = {**os.environ, BINARY_VARIABLE: program}
        subprocess.run(command, cwd=HERE.parent, env=environ, stdout=sys.stderr, check=False)
        cases = list(ET.parse(report).iter("testcase")) if report.exists() else []
    failed = [case for case in cases if case.find("failure") is not None or case.find("error") is not None]
    skipped = [case for case in cases if case.find("skipped") is not None]
    lines = [f"failed {case.get('classname')}::{case.get('name')}" for case in failed]
    lines += [f"skipped {case.get('name')}: {it.get('message')}" for case in skipped for it in case.iter("skipped")]
    if not cases:
        lines.append("no test ran")
    passed = len(cases) - len(failed) - len(skipped)
    return Row(server, passed, len(failed) or int(not cases), len(skipped), tuple(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
