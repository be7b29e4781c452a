"""Tables for people. The one module that imports rich."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import StringIO
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from emqctl.errors import EmqError
from emqctl.render.cells import printable, to_text
from emqctl.render.layout import Layout, Output

NARROWEST = 20  # cells the last column keeps, however narrow the terminal is


def write_table(records: Iterable[Any], out: Output, layout: Layout) -> None:
    """Write a table as wide as its data: only the last column is ever shortened to the terminal.

    Columns that are empty throughout are left out unless they were asked for by name.
    """
    rows = list(records)
    shown = [name for name in layout.fields if layout.chosen or any(_filled(getattr(row, name)) for row in rows)]
    cells = [[_cell(getattr(row, name), out, layout) for name in shown] for row in rows]
    if layout.bare:
        out.write("".join(row[0].plain + "\n" for row in cells))
    elif cells and layout.single and len(cells) == 1:
        _draw(_lines(shown, cells[0]), [cells[0][-1]], out, layout)
    elif cells:
        _draw(_grid(shown, rows, cells, out), [row[-1] for row in cells], out, layout)


def _grid(shown: Sequence[str], rows: Sequence[Any], cells: Sequence[Sequence[Text]], out: Output) -> Table:
    table = Table(
        box=box.SIMPLE_HEAD if out.shows_unicode else None, show_edge=False, pad_edge=False, header_style="bold"
    )
    for name in shown:
        table.add_column(Text(name), justify="right" if _numeric(rows, name) else "left", no_wrap=True)
    for row in cells:
        table.add_row(*row)
    return table


def _lines(shown: Sequence[str], cells: Sequence[Text]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(no_wrap=True)
    for name, cell in zip(shown, cells, strict=True):
        table.add_row(Text(name), cell)
    return table


def _cell(value: Any, out: Output, layout: Layout) -> Text:
    text = printable(to_text(value, layout.time_style, layout.now_ms), out.encoding)
    if isinstance(value, EmqError):
        return Text(text, style="red")
    return Text(text, style="yellow") if value is True else Text(text or "-", style="" if text else "dim")


def _filled(value: Any) -> bool:
    return value is not None and value not in (b"", "")


def _numeric(rows: Sequence[Any], name: str) -> bool:
    values = [getattr(row, name) for row in rows]
    return all(value is None or (isinstance(value, int) and not isinstance(value, bool)) for value in values)


def _draw(table: Table, last: Sequence[Text], out: Output, layout: Layout) -> None:
    canvas = StringIO()
    console = Console(
        file=canvas,
        width=1_000_000,
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
    widest = max(cell.cell_len for cell in last)
    if out.is_terminal and overhang > 0:
        column = table.columns[-1]
        column.overflow = "ellipsis" if out.shows_unicode else "crop"
        column.max_width = max(widest - overhang, min(widest, NARROWEST))
    console.print(table, crop=False)
    out.write("".join(line.rstrip() + "\n" for line in canvas.getvalue().splitlines()))
