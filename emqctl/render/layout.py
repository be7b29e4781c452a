"""What a writer is told: where to write, which fields, and how."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from emqctl.errors import OutputFault
from emqctl.render.cells import Clock


@dataclass(frozen=True)
class Output:
    """Standard output: bytes, what it can show, and how wide it is."""

    stream: BinaryIO
    encoding: str
    is_terminal: bool
    columns: int

    @property
    def shows_unicode(self) -> bool:
        """Whether every character can be written."""
        return self.encoding.lower().replace("-", "").startswith("utf")

    def write(self, text: str) -> None:
        """Write text in the encoding of the terminal; UTF-8 where no person looks."""
        self.write_bytes(text.encode(self.encoding if self.is_terminal else "utf-8", "backslashreplace"))

    def write_bytes(self, raw: bytes) -> None:
        """Write bytes as they are. Raises BrokenPipeError when the reader is gone, else OutputFault."""
        try:
            self.stream.write(raw)
        except BrokenPipeError:
            raise
        except OSError as error:
            raise OutputFault(error) from error


@dataclass(frozen=True)
class Layout:
    """How the records of one command are written.

    ``fields`` are the columns in order, ``chosen`` whether the operator named them; ``bare`` prints
    a single value alone in table and plain, ``single`` a single record as lines in a table; ``more``
    is asked after the last record; ``describe`` makes the JSON body of an error.
    """

    schema: str
    fields: tuple[str, ...]
    chosen: bool
    time_style: str
    color: bool
    now_ms: Clock
    describe: Callable[[BaseException], dict[str, Any]]
    bare: bool = False
    single: bool = False
    more: Callable[[], bool] = field(default=lambda: False)
