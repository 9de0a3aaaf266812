"""Output of the commands: aligned columns for people, or JSON with --json."""

import json
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from itertools import zip_longest
from typing import Any

import typer
from rich.cells import cell_len
from rich.filesize import decimal

_GAP = "  "
_MIN_WIDTH = 6

Record = Mapping[str, Any]
"""The printed fields of one thing. A field without a value is absent; sizes are integers, and times are text.

The exception is `available_bytes` of `towpath usage --json`: it is None if nothing bounds the storage.
"""


def show_record(record: Record, *, as_json: bool) -> None:
    """Print one thing: a JSON object, or one line per field."""
    if as_json:
        typer.echo(json.dumps(record, indent=2, ensure_ascii=False))
        return
    width = max(len(name) for name in record)
    for name, value in record.items():
        typer.echo(f"{_title(name):<{width}}  {_cell_of(name, value)}")


def show_records(records: Iterable[Record], columns: Sequence[str], *, as_json: bool) -> None:
    """Print a list: a JSON array, or a table of the fields in `columns`."""
    listing = Listing(columns, as_json=as_json)
    listing.add(list(records))
    listing.end()


class Listing:
    """A list that is printed in parts. A table's columns are as wide as the first part needs and a terminal allows."""

    def __init__(self, columns: Sequence[str], *, as_json: bool) -> None:
        self._columns = columns
        self._as_json = as_json
        self._widths: list[int] = []
        self._count = 0

    def add(self, records: Sequence[Record]) -> None:
        """Print more entries of the list."""
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
        """Print the end of the list: the closing bracket of JSON, or `(none)` for an empty table."""
        if self._as_json:
            typer.echo("\n]" if self._count else "[]")
        elif not self._count:
            typer.echo("(none)")

    def _write(self, row: Sequence[str]) -> None:
        # Fold at a terminal only: in a pipe each entry stays on one line.
        folds = sys.stdout.isatty()
        folded = [_folded(text, width) if folds else [text] for text, width in zip(row, self._widths, strict=True)]
        for parts in zip_longest(*folded, fillvalue=""):
            padded = (text + " " * (width - cell_len(text)) for text, width in zip(parts, self._widths, strict=True))
            typer.echo(_GAP.join(padded).rstrip())


def show_removal(what: str, record: Record, *, as_json: bool) -> None:
    """Print a removal: a sentence, unless `as_json`, and then the fields of the removed thing."""
    if not as_json:
        typer.echo(f"Removed {cell(what)}.")
    show_record(record, as_json=as_json)


def _fitting(widths: list[int]) -> list[int]:
    """Return column widths that fit the terminal: the widest columns become narrower. A pipe has no limit."""
    if not sys.stdout.isatty():
        return widths
    fitting = list(widths)
    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
    while sum(fitting) > room and max(fitting) > _MIN_WIDTH:
        fitting[fitting.index(max(fitting))] -= 1
    return fitting


def _folded(text: str, width: int) -> list[str]:
    """Return a cell as one or more lines of at most this width."""
    lines, line = [], ""
    for character in text:
        if line and cell_len(line + character) > width:
            lines.append(line)
            line = ""
        line += character
    return [*lines, line]


def _cell_of(field: str, value: object) -> str:
    """Return the text of a field; a number of bytes gets a readable unit."""
    if isinstance(value, int) and not isinstance(value, bool) and (field == "size" or "bytes" in field.split("_")):
        return decimal(value)
    return cell(value)


def _title(field: str) -> str:
    return field.replace("_", " ")


def cell(value: object) -> str:
    """Return a value as one line of text; characters that a terminal would obey, such as ESC in a path, are escaped."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return ", ".join(f"{_title(name)} {cell(inner)}" for name, inner in value.items())
    if isinstance(value, list | tuple):
        return ", ".join(cell(inner) for inner in value)
    text = str(value)
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
