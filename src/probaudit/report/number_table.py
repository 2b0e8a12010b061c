"""Tables of numbers for the terminal. On a narrow one, columns that do not fit follow below, beside
the names of the rows again."""

from __future__ import annotations

from collections.abc import Iterator

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Column, Table
from rich.text import Text

from ..text import ShownAsTable

WITH_THE_LAST = ("95% interval", "95% limit", "")  # titles of columns that explain the one before
NAMES = 24  # letters of a name that stay on one line
GAP = 2  # between columns


class NumberTable(Table):
    """A table with numbers in all columns but the first, which has names and folds if the console
    is narrow."""

    def __init__(self, first: RenderableType = "", *others: RenderableType) -> None:
        super().__init__(
            box=box.SIMPLE_HEAD,
            show_edge=False,
            header_style="dim",
            pad_edge=False,
            collapse_padding=True,
        )
        self.add_column(first, overflow="fold")
        for title in others:
            self.add_column(title, justify="right", no_wrap=True)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        widths = [_width(console, column) for column in self.columns]
        parts = list(_parts(widths, [str(c.header) for c in self.columns], options.max_width))
        if len(parts) == 1:
            yield from super().__rich_console__(console, options)
            return
        for place, part in enumerate(parts):
            table = self._with([0, *part], leave_out_empty=place > 0)
            if table.row_count:
                yield from table.__rich_console__(console, options)

    def _with(self, places: list[int], *, leave_out_empty: bool) -> Table:
        """The table with some of its columns; `leave_out_empty` rows, which have only a name."""
        found = Table(
            box=self.box,
            show_edge=False,
            header_style=self.header_style,
            pad_edge=False,
            collapse_padding=True,
        )
        shown = [self.columns[k] for k in places]
        for column in shown:
            found.add_column(
                column.header,
                justify=column.justify,
                no_wrap=column.no_wrap,
                overflow=column.overflow,
            )
        for row, cells in zip(self.rows, zip(*(c.cells for c in shown), strict=True), strict=True):
            if any(map(str, cells[1:])) or not leave_out_empty:
                found.add_row(*cells, style=row.style, end_section=row.end_section)
        return found


def of_result(result: ShownAsTable) -> Group:
    """The table that a result prints, fitted to the console."""
    shown = result._text_table()
    table = NumberTable(*map(Text, shown.headers))
    for row in shown.rows:
        table.add_row(*map(Text, row))
    return Group(Text(shown.caption), table, *([Text(shown.note)] if shown.note else []))


def _width(console: Console, column: Column) -> int:
    return max(console.measure(cell).maximum for cell in (column.header, *column.cells))


def _parts(widths: list[int], titles: list[str], room: int) -> Iterator[list[int]]:
    """The columns of each part that fits beside the names, in order; an interval stays beside its
    number.

    >>> titles = ["", "value", "95% interval", "ratio", "95% interval"]
    >>> list(_parts([20, 6, 16, 6, 16], titles, 60))
    [[1, 2], [3, 4]]
    """
    groups: list[list[int]] = []
    for k in range(1, len(widths)):
        if groups and titles[k] in WITH_THE_LAST:
            groups[-1].append(k)
        else:
            groups.append([k])
    names, part, used = min(widths[0], NAMES), list[int](), 0
    for group in groups:
        needed = sum(widths[k] + GAP for k in group)
        if part and names + used + needed > room:
            yield part
            part, used = [], 0
        part, used = part + group, used + needed
    yield part
