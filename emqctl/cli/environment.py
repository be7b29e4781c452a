"""The world around one run: streams, variables, terminal. A test replaces it."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, TextIO

from emqctl.errors import LocalFault
from emqctl.render.layout import Output


@dataclass(frozen=True)
class Environment:
    """Standard streams and variables. ``stdout`` is None when the caller closed it."""

    variables: Mapping[str, str]
    stdin: TextIO | None
    stdout: TextIO | None
    stderr: TextIO | None

    @classmethod
    def of_process(cls) -> Environment:
        """Return the environment of this process."""
        return cls(os.environ, sys.stdin, sys.stdout, sys.stderr)

    def output(self) -> Output:
        """Return standard output as the writers take it. Raises LocalFault when there is none."""
        if self.stdout is None:
            raise LocalFault("standard output is closed")
        return Output(
            _binary(self.stdout),
            self.stdout.encoding or "utf-8",
            self.stdout.isatty(),
            shutil.get_terminal_size().columns,
        )

    def wants_color(self, choice: str) -> bool:
        """Decide on colour: the option, then NO_COLOR, then FORCE_COLOR, then what stdout is."""
        if choice != "auto":
            return choice == "always"
        if self.variables.get("NO_COLOR"):
            return False
        if self.variables.get("FORCE_COLOR"):
            return True
        return self.stdout is not None and self.stdout.isatty() and self.variables.get("TERM") != "dumb"


def forget(stream: TextIO | None) -> None:
    """Point a stream that takes nothing more elsewhere, so that the interpreter's last flush finds no fault."""
    with suppress(OSError):  # a stream without a file of its own needs none
        if stream is not None:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream.fileno())
            os.close(nowhere)


def _binary(stream: Any) -> BinaryIO:
    binary: BinaryIO = stream.buffer
    return binary
