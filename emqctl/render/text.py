"""The formats scripts read: plain, json, jsonl, csv, ids. All of them stream."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from emqctl.errors import EmqError, Interrupted
from emqctl.render.cells import machine_items, printable, to_cell, to_json, to_text
from emqctl.render.layout import Layout, Output

LOOK_AHEAD = 1000  # records read before the header of a csv is decided


def write_plain(records: Iterable[Any], out: Output, layout: Layout) -> None:
    """Write one line a record, tab-separated, no header, nothing cut or padded."""
    encoding = out.encoding if out.is_terminal else "utf-8"
    for record in records:
        cells = (to_text(getattr(record, name), layout.time_style, layout.now_ms) for name in layout.fields)
        if layout.bare:
            out.write(printable(next(cells), encoding) + "\n")
        else:
            out.write("\t".join(to_cell(cell, encoding) for cell in cells) + "\n")


def write_ids(records: Iterable[Any], out: Output, layout: Layout) -> None:
    """Write the first field of each record, one a line."""
    for record in records:
        out.write(to_cell(to_text(getattr(record, layout.fields[0]), "iso", layout.now_ms)) + "\n")


def write_jsonl(records: Iterable[Any], out: Output, layout: Layout) -> None:
    """Write one JSON object a line."""
    for record in records:
        out.write(_object(record, out, layout) + "\n")


def write_json(records: Iterable[Any], out: Output, layout: Layout) -> None:
    """Write one JSON document; it is closed, with the error in it, when the records break off midway."""
    opening = f'{{"schema": "{layout.schema}", "records": ['
    begun = False
    try:
        for record in records:
            out.write((",\n  " if begun else opening + "\n  ") + _object(record, out, layout))
            begun = True
    except (EmqError, Interrupted) as error:
        if begun:
            body = to_json(layout.describe(error), ascii_only=not out.shows_unicode)
            out.write(f'\n], "more": true, "error": {body}}}\n')
        raise
    closing = "\n]" if begun else opening + "]"
    out.write(f'{closing}, "more": {to_json(layout.more(), ascii_only=True)}}}\n')


def write_csv(records: Iterable[Any], out: Output, layout: Layout) -> None:
    """Write RFC 4180 with a header.

    Text that is not UTF-8 leaves its cell empty and stands in a column ``<field>_base64`` after all
    others, the reason for a value that could not be read in ``<field>_error``. Such a column is there
    where one of the first 1,000 records needs it, and for every field that may when there are more.
    """
    rows = (dict(_members(record, layout)) for record in records)
    ahead: list[dict[str, Any]] = []
    ended: EmqError | Interrupted | None = None
    try:
        ahead.extend(itertools.islice(rows, LOOK_AHEAD + 1))
    except (EmqError, Interrupted) as error:  # what was found before is written all the same
        if not ahead:
            raise
        ended = error
    columns = [*layout.fields, *_companions(ahead, layout.fields)]
    out.write(",".join(columns) + "\n")
    for row in itertools.chain(ahead, rows):
        line = ",".join(_quoted(row.get(column)) for column in columns)
        out.write((printable(line, out.encoding) if out.is_terminal else line) + "\n")
    if ended:
        raise ended


def _members(record: Any, layout: Layout) -> Iterator[tuple[str, Any]]:
    for name in layout.fields:
        yield from machine_items(name, getattr(record, name))


def _object(record: Any, out: Output, layout: Layout) -> str:
    return to_json(dict(_members(record, layout)), ascii_only=not out.shows_unicode)


def _companions(ahead: Sequence[dict[str, Any]], fields: Sequence[str]) -> list[str]:
    possible = [f"{name}_{suffix}" for name in fields for suffix in ("base64", "error")]
    if len(ahead) > LOOK_AHEAD:
        return [column for column in possible if column not in fields]
    return [column for column in possible if any(column in row for row in ahead)]


def _quoted(value: Any) -> str:
    if value is None:
        return ""
    text = value if isinstance(value, str) else to_json(value, ascii_only=False)
    return '"' + text.replace('"', '""') + '"' if not text or any(c in text for c in '",\r\n') else text
