"""Prints tables, headings and lines: tables on a terminal, otherwise tab-separated lines."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from api.cli.output.control_characters import visible

__all__ = ["TablePrinter", "rich_table", "table_printer"]


def table_printer(out: TextIO | None = None, output: str | None = None) -> TablePrinter:
    """Return a printer for this stream; None: stdout. `output`: `table` or `tsv`; None chooses
    tables on a terminal and tab-separated lines elsewhere."""
    stream = sys.stdout if out is None else out
    rich_tables = stream.isatty() if output is None else output == "table"
    return _RichPrinter(stream) if rich_tables else TablePrinter(stream)


def rich_table(
    title: str, columns: Sequence[str], rows: Iterable[Sequence[str]], *, expand: bool = False
) -> Table:
    """Return a table for a terminal. `expand`: as wide as the terminal."""
    table = Table(title=Text(title), title_justify="left", header_style="bold", expand=expand)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        # Not markup, because a topic's regular expression may look like a tag.
        table.add_row(*(Text(visible(cell)) for cell in row))
    return table


class TablePrinter:
    """Prints plain text: one line per row, columns separated by tabs, for `grep`, `cut` and
    logs."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    def heading(self, text: str) -> None:
        print(f"\n== {visible(text)}", file=self._out)

    def line(self, text: str, style: str = "") -> None:
        print(visible(text), file=self._out)

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        shown = list(rows)
        print(f"\n# {title}: {'none' if not shown else len(shown)}", file=self._out)
        if shown:
            print("\t".join(columns), file=self._out)
        for row in shown:
            print("\t".join(map(visible, row)), file=self._out)


class _RichPrinter(TablePrinter):
    """Prints tables on a terminal."""

    def __init__(self, out: TextIO) -> None:
        super().__init__(out)
        self._console = Console(file=out, highlight=False)

    def heading(self, text: str) -> None:
        self._console.print()
        self._console.rule(Text(visible(text), "bold"), align="left")

    def line(self, text: str, style: str = "") -> None:
        self._console.print(Text(visible(text), style))

    def table(self, title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        shown = list(rows)
        if not shown:
            self._console.print(Text(f"{title}: none", "dim"))
            return
        self._console.print(rich_table(title, columns, shown))
