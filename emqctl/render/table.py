"""Tables for people. The one module that imports rich."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emqctl.errors import EmqError
from emqctl.render.cells import printable, to_text
from emqctl.render.detail import detail_lines
from emqctl.render.layout import Layout, Output

WIDEST = 2**31 - 1  # rich cuts what is wider than its terminal
NARROWEST = 20  # cells the last column keeps, however narrow the terminal is


def write_table(records: Iterable[Any], out: Output, layout: Layout) -> None:
    """Write a table as wide as its data: only the last column is ever shortened to the terminal.

    Columns that are empty throughout are left out unless they were asked for by name.
    """
    rows: list[Any] = []
    try:
        rows.extend(records)
    finally:  # what was found before an error or a signal is shown all the same
        _write(rows, out, layout)


def _write(rows: Sequence[Any], out: Output, layout: Layout) -> None:
    shown = [name for name in layout.fields if layout.chosen or any(_filled(getattr(row, name)) for row in rows)]
    shown = shown or list(layout.fields[:1])
    cells = [[_cell(getattr(row, name), out, layout) for name in shown] for row in rows]
    if layout.bare:
        out.write("".join(row[0].plain + "\n" for row in cells))
    elif layout.single:
        for number, row in enumerate(rows):
            out.write("\n" if number else "")
            details = [
                line for name in shown if _filled(getattr(row, name)) for line in _detail(row, name, out, layout)
            ]
            _draw(_lines(details), [text for _, text in details], out, layout, whole=True)
    elif cells:
        last = [Text(shown[-1]), *(row[-1] for row in cells)]
        _draw(_grid(shown, rows, cells, out), last, out, layout)


def _grid(shown: Sequence[str], rows: Sequence[Any], cells: Sequence[Sequence[Text]], out: Output) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD if out.shows_unicode else None, show_edge=False, pad_edge=False, header_style="bold"
    )
    for name in shown:
        table.add_column(Text(name), justify="right" if _numeric(rows, name) else "left", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    return table


def _lines(details: Sequence[tuple[str, Text]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, text in details:
        table.add_row(Text(name), text)
    return table


def _detail(row: Any, name: str, out: Output, layout: Layout) -> Iterator[tuple[str, Text]]:
    label = name
    for line in detail_lines(getattr(row, name), layout.time_style, layout.now_ms):
        yield label, Text(printable(line, out.encoding))
        label = ""


def _cell(value: Any, out: Output, layout: Layout) -> Text:
    text = printable(to_text(value, layout.time_style, layout.now_ms), out.encoding)
    if isinstance(value, EmqError):
        return Text(text, style="red")
    return Text(text, style="yellow") if value is True else Text(text or "-", style="" if text else "dim")


def _filled(value: Any) -> bool:
    return value is not None and value not in (b"", "", [], {})


def _numeric(rows: Sequence[Any], name: str) -> bool:
    values = [value for row in rows if not isinstance(value := getattr(row, name), EmqError) and value is not None]
    return all(isinstance(value, int) and not isinstance(value, bool) for value in values)


def _draw(table: Table, last: Sequence[Text], out: Output, layout: Layout, *, whole: bool = False) -> None:
    canvas = StringIO()
    console = Console(
        file=canvas,
        width=WIDEST,
        color_system="standard" if layout.color else None,
        force_terminal=layout.color,
        no_color=False,
        _environ={},  # colour was decided by emqctl's own rules
        highlight=False,
        markup=False,
        emoji=False,
        legacy_windows=False,
    )
    overhang = console.measure(table).maximum - out.columns
    widest = max((cell.cell_len for cell in last), default=0)
    if out.is_terminal and overhang > 0 and not whole:
        column = table.columns[-1]
        column.overflow = "ellipsis" if out.shows_unicode else "crop"
        column.max_width = max(widest - overhang, min(widest, NARROWEST))
    console.print(table, crop=False)
    out.write("".join(line.rstrip() + "\n" for line in canvas.getvalue().splitlines()))
