"""Real shells at a real terminal, with emqctl's completions loaded the way each of them loads such."""

from __future__ import annotations

import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pexpect
from cli.running import DEADLINE_S, PACKAGE

ROOT = Path(__file__).parents[2]
#: A prefix that holds an installed emqctl, to try what a wheel brings; without it, what the repository holds.
PREFIX = os.environ.get("EMQCTL_TEST_PREFIX")
# more time than an operator is given: this machine has other things to do
_UNHURRIED = (
    "import sys; sys.path.insert(0, {path!r}); from emqctl.cli import complete, main, shells; "
    "shells.ALL_S = complete.SERVER_S = 20; main()"
)
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?>=]*[A-Za-z]|\][^\x07]*\x07|[()][A-Z0-9]|[=>78])|\x0f")


@dataclass(frozen=True)
class Kind:
    """How a shell is started without anybody's settings, and how it is told of the completions."""

    start: str
    setup: tuple[str, ...]
    script: str
    installed: str


KINDS = {
    "bash": Kind(
        "bash --norc --noprofile -i",
        (
            "bind 'set show-all-if-ambiguous on'; bind 'set page-completions off'",
            "bind 'set enable-bracketed-paste off'; bind 'set completion-query-items 0'",
            "source {script}",
        ),
        "completions/emqctl.bash",
        "share/bash-completion/completions/emqctl",
    ),
    "zsh": Kind(
        "zsh -f -i",
        ("fpath=({folder} $fpath); LISTMAX=10000; unsetopt list_ambiguous", "autoload -Uz compinit && compinit -u -D"),
        "completions/_emqctl",
        "share/zsh/site-functions/_emqctl",
    ),
    "fish": Kind(
        "fish --no-config -i",
        ("source {script}",),
        "completions/emqctl.fish",
        "share/fish/vendor_completions.d/emqctl.fish",
    ),
}


class Shell:
    """One shell at a terminal of its own."""

    def __init__(self, child: pexpect.spawn) -> None:
        self._child = child
        self._ran = 0

    def run(self, line: str) -> str:
        """Run a line; return what is on the terminal since the last one, up to its end."""
        self._ran += 1
        self._child.sendline(f"{line}; echo ready''-{self._ran}.")
        self._child.expect_exact(f"ready-{self._ran}.")
        return _plain(self._child.before)

    def completed(self, line: str, rest: str) -> str:
        """Press TAB at the end of a line that has but one way to go on, with ``rest``; return the whole line."""
        self._child.send(line + "\t")
        self._child.expect_exact(rest)
        self._child.send("\x01echo became: \r")
        self._child.expect(r"became: (emqctl[^\r\n\x1b]*)\r?\n")
        return str(self._child.match[1]).rstrip()

    def offered(self, line: str, *words: str) -> None:
        """Press TAB at the end of a line; wait until all words have been shown, of one with … its end."""
        self._child.send(line + "\t")
        shown = ""
        wanted = [(r"\S*" if word[0] == "…" else r"(?<!\S)") + re.escape(word.lstrip("…")) for word in words]
        while not all(re.search(rf"{word}(?!\S)", shown) for word in wanted):
            try:
                self._child.expect(r".+")
            except pexpect.TIMEOUT as error:
                raise AssertionError(f"{line!r} offered {shown!r}, not all of {words}") from error
            shown += _plain(self._child.after)
            if "more rows" in shown:  # fish shows them all at a second one
                self._child.send("\t")
                shown = shown.replace("more rows", "")
        self._child.sendcontrol("c")

    def unchanged(self, line: str) -> str:
        """Press TAB at the end of a line; return what is on the terminal until the next line has run."""
        self._child.send(line + "\t")
        self._child.send("\x01: ")
        return self.run("")


@contextmanager
def shell(name: str, folder: Path, variables: Mapping[str, str]) -> Iterator[Shell]:
    """Yield a shell in which ``emqctl`` is a command that completes."""
    kind = KINDS[name]
    fixed = {"TERM": "xterm", "LC_ALL": "C.UTF-8", "PS1": "> ", "HOME": str(folder)}
    script = Path(PREFIX, kind.installed) if PREFIX else ROOT / kind.script
    environment = {"PATH": f"{_programs(folder)}:{os.environ['PATH']}", **fixed, **variables}
    child = pexpect.spawn(
        kind.start, env=environment, cwd=str(folder), encoding="utf-8", timeout=DEADLINE_S, dimensions=(50, 120)
    )
    try:
        started = Shell(child)
        for line in kind.setup:
            started.run(line.format(script=script, folder=script.parent))
        yield started
    finally:
        child.close(force=True)


def _programs(folder: Path) -> Path:
    """Put an ``emqctl`` that is in no hurry into a folder below; return that."""
    python, path = (f"{PREFIX}/bin/python", "") if PREFIX else (sys.executable, str(PACKAGE.parent))
    start = [python, "-c", _UNHURRIED.format(path=path)]
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "emqctl").write_text(f'#!/bin/sh\nexec {shlex.join(start)} "$@"\n')
    (folder / "bin" / "emqctl").chmod(0o755)
    return folder / "bin"


def _plain(text: str) -> str:
    return _ESCAPES.sub("", text)
