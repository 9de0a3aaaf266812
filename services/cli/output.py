"""What the commands print: for people aligned columns, with --json JSON."""

import json
import shutil
import sys
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import typer
from rich.cells import cell_len
from rich.filesize import decimal

_GAP = "  "
_MIN_WIDTH = 6

Record = Mapping[str, Any]
"""What is printed of one thing. Absent is absent: no value is None. Sizes are integers, times text."""


def show_record(record: Record, *, as_json: bool) -> None:
    """Print one thing: an object, or a line for each field."""
    if as_json:
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        typer.echo(f"{_title(name):<{width}}  {_cell_of(name, value)}")


def show_records(records: Iterable[Record], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list: an array, or a table of these fields."""
    listing = Listing(columns, as_json=as_json)
    listing.add(list(records))
    listing.end()


async def show_pages(pages: AsyncIterable[Sequence[Record]], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list page by page, as it comes, like `show_records`."""
    listing = Listing(columns, as_json=as_json)
    async for page in pages:
        listing.add(page)
    listing.end()


class Listing:
    """A list being printed. The columns of a table are as wide as the first page needs and a terminal has room for."""

    def __init__(self, columns: Sequence[str], *, as_json: bool) -> None:
        self._columns = columns
        self._as_json = as_json
        self._widths: list[int] = []
        self._count = 0

    def add(self, records: Sequence[Record]) -> None:
        """Print more of it."""
        if self._as_json:
            for record in records:
                typer.echo("[\n  " if not self._count else ",\n  ", nl=False)
                typer.echo(json.dumps(record, ensure_ascii=False), nl=False)
                self._count += 1
            return
        rows = [[_cell_of(column, record.get(column, "")) for column in self._columns] for record in records]
        if rows and not self._count:
            titles = [_title(column).upper() for column in self._columns]
            self._widths = _fitting([max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)])
            self._write(titles)
        for row in rows:
            self._write(row)
        self._count += len(rows)

    def end(self) -> None:
        """Say that this was all."""
        if self._as_json:
            typer.echo("\n]" if self._count else "[]")
        elif not self._count:
            typer.echo("(none)")

    def _write(self, row: Sequence[str]) -> None:
        # Of a list that nobody reads at a terminal each entry is one line.
        folds = sys.stdout.isatty()
        folded = [_folded(text, width) if folds else [text] for text, width in zip(row, self._widths, strict=True)]
        for parts in zip_longest(*folded, fillvalue=""):
            padded = (text + " " * (width - cell_len(text)) for text, width in zip(parts, self._widths, strict=True))
            typer.echo(_GAP.join(padded).rstrip())


def show_removal(what: str, record: Record, *, as_json: bool) -> None:
    """Print what was removed: in words, and then all that was known of it."""
    if not as_json:
        typer.echo(f"Removed {cell(what)}.")
    show_record(record, as_json=as_json)


def _fitting(widths: list[int]) -> list[int]:
    """Return widths with which a table fits the terminal: the widest columns are folded. A pipe has no width."""
    if not sys.stdout.isatty():
        return widths
    fitting = list(widths)
    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
    while sum(fitting) > room and max(fitting) > _MIN_WIDTH:
        fitting[fitting.index(max(fitting))] -= 1
    return fitting


def _folded(text: str, width: int) -> list[str]:
    """Return a cell in lines of at most this width, one at least."""
    lines, line = [], ""
    for character in text:
        if line and cell_len(line + character) > width:
            lines.append(line)
            line = ""
        line += character
    return [*lines, line]


def _cell_of(field: str, value: object) -> str:
    """Return the text of a field: a number of bytes as people say it."""
    if isinstance(value, int) and not isinstance(value, bool) and (field == "size" or "bytes" in field.split("_")):
        return decimal(value)
    return cell(value)


def _title(field: str) -> str:
    return field.replace("_", " ")


def cell(value: object) -> str:
    """Return a value as text in one line; what a terminal would obey, such as an escape in a path, is escaped."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{_title(name)} {cell(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(cell(inner) for inner in value)
    text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
