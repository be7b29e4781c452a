"""Writing records: one writer a format, looked up in one place."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from emqctl.render import text
from emqctl.render.layout import Layout, Output

Writer = Callable[[Iterable[Any], Output, Layout], None]


def _write_table(records: Iterable[Any], out: Output, layout: Layout) -> None:
    from emqctl.render.table import write_table  # rich, for those who look

    write_table(records, out, layout)


#: Writer of each format, by its name.
FORMATS: dict[str, Writer] = {
    "table": _write_table,
    "plain": text.write_plain,
    "json": text.write_json,
    "jsonl": text.write_jsonl,
    "csv": text.write_csv,
    "ids": text.write_ids,
}


def write(records: Iterable[Any], output_format: str, out: Output, layout: Layout) -> None:
    """Write flat records in one of ``FORMATS``; the fields and their order are the layout's."""
    FORMATS[output_format](records, out, layout)
