"""What the commands print: for people aligned columns, with --json JSON."""

import json
from collections.abc import AsyncIterable, Iterable, Mapping, Sequence
from typing import Any

import typer
from rich.cells import cell_len

Record = Mapping[str, Any]
"""What is printed of one thing. Absent is absent: no value is None. Sizes are integers, times text."""


def show_record(record: Record, *, as_json: bool) -> None:
    """Print one thing: an object, or a line for each field."""
    if as_json:
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        typer.echo(f"{_title(name):<{width}}  {cell(value)}")


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
    """A list being printed. The columns of a table are as wide as the first page needs."""

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
        rows = [[cell(record.get(column, "")) for column in self._columns] for record in records]
        if rows and not self._count:
            titles = [_title(column).upper() for column in self._columns]
            self._widths = [max(map(cell_len, column)) for column in zip(titles, *rows, strict=True)]
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
        padded = (text + " " * (width - cell_len(text)) for text, width in zip(row, self._widths, strict=True))
        typer.echo("  ".join(padded).rstrip())


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
