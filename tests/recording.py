"""The recorded session in the README: lines typed at a terminal beside the sample world, drawn by rich."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Mapping
from io import StringIO

import pexpect
from rich.console import Console
from rich.text import Text

COLUMNS = 108
LINES = (
    "emqctl queues --time iso",
    "emqctl errors orders --columns group,count,error",
    "emqctl browse orders --state dead --error refused -n 3 --columns id,attempts,error,preview",
    "emqctl requeue orders --error refused",
    "emqctl depth orders",
)
QUESTION = "Type yes to go on: "
CELL = 12.2  # how wide rich draws one
SHOWN_URL = "redis://queue-1:6390/0"

_TEXT = re.compile(r'<text class="[^"]*-r\d+" x="([\d.]+)"[^>]* clip-path="url\(#emqctl-line-(\d+)\)">([^<]*)</text>')


def recorded(url: str, variables: Mapping[str, str]) -> str:
    """Type the lines, answer what they ask with yes, and return what the terminal shows, colours and all."""
    shown = "".join(f"\x1b[1;32m$\x1b[0m \x1b[1m{line}\x1b[0m\n{_typed(line, url, variables)}\n" for line in LINES)
    return shown.replace(url, SHOWN_URL).rstrip("\n")


def drawn(session: str) -> str:
    """Return a session as SVG."""
    console = Console(record=True, width=COLUMNS, file=StringIO(), force_terminal=True, _environ={})
    console.print(Text.from_ansi(session), soft_wrap=False)
    return console.export_svg(title="emqctl", unique_id="emqctl")


def text_of(svg: str) -> list[str]:
    """Return the lines that an SVG of ``drawn`` shows."""
    lines: dict[int, str] = {}
    for x, line, text in _TEXT.findall(svg):
        before = lines.get(int(line), "").ljust(round(float(x) / CELL))
        lines[int(line)] = before + html.unescape(text).replace("\xa0", " ")
    return [lines[number].rstrip() for number in sorted(lines)]


def _typed(line: str, url: str, variables: Mapping[str, str]) -> str:
    child = pexpect.spawn(
        sys.executable,
        ["-m", *line.split()],
        env={**variables, "EMQCTL_URL": url, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)},
        dimensions=(40, COLUMNS),
        encoding="utf-8",
        timeout=60,
    )
    child.logfile_read = screen = StringIO()
    if child.expect_exact([QUESTION, pexpect.EOF]) == 0:
        child.sendline("yes")
        child.expect(pexpect.EOF)
    child.close()
    return screen.getvalue().replace("\r\n", "\n")
