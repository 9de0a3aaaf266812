"""Output of the commands."""

import json

import pytest
from rich.cells import cell_len

from services.cli.main import _fail
from services.cli.output import Listing, Record, cell, show_record

ROWS: list[Record] = [{"name": "a", "size": 2**53 + 1}, {"name": "a longer\nname"}]


def test_json_list(capsys: pytest.CaptureFixture[str]) -> None:
    """A list in pages is one array, with whole numbers and without what is absent."""
    listing = Listing(("name",), as_json=True)
    listing.add(ROWS[:1])
    listing.add([])
    listing.add(ROWS[1:])
    listing.end()
    assert json.loads(capsys.readouterr().out) == ROWS


def test_empty_lists(capsys: pytest.CaptureFixture[str]) -> None:
    """An empty list is an empty array (trap-18), and for people a word."""
    Listing(("name",), as_json=True).end()
    Listing(("name",), as_json=False).end()
    assert capsys.readouterr().out == "[]\n(none)\n"


def test_table(capsys: pytest.CaptureFixture[str]) -> None:
    """A table has a title, and a line for each entry whatever is in it."""
    listing = Listing(("name", "size"), as_json=False)
    listing.add(ROWS)
    listing.end()
    assert capsys.readouterr().out.splitlines() == [
        "NAME            SIZE",
        "a               9.0 PB",
        "a longer\\nname",
    ]


def test_table_on_a_terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is no wider than the terminal, and loses nothing: what has no room goes on in the next line."""
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    oid, reason = "0123456789abcdef" * 4, "taken down, as it belongs to 日本 and never was ours"
    listing = Listing(("oid", "size", "reason"), as_json=False)
    listing.add([{"oid": oid, "size": 12_345, "reason": reason}])
    listing.add([{"oid": oid, "size": 2, "reason": "longer than any of the first page " * 9}])
    lines = capsys.readouterr().out.splitlines()
    assert max(map(cell_len, lines)) <= 80
    first = lines[1 : next(number for number, line in enumerate(lines) if "2 bytes" in line)]
    columns = [lines[0].index(title) for title in ("OID", "SIZE")]
    assert "".join(line[: columns[1]].strip() for line in first) == oid
    assert "12.3 kB" in first[0]


def test_the_words_of_another_server(capsys: pytest.CaptureFixture[str]) -> None:
    """No terminal obeys them; a failure of several paths keeps its lines."""
    with pytest.raises(SystemExit):
        _fail("it answers 500: \x1b[2J\nno")
    assert capsys.readouterr().err == "towpath: it answers 500: \\x1b[2J\nno\n"


def test_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """People read kB and GB, programs bytes; a count is no size."""
    record = {"size": 12_345, "object_bytes": 5 * 10**9, "bytes_in_today": 0, "object_count": 12_345}
    show_record(record, as_json=False)
    shown = [line.split("  ")[-1].strip() for line in capsys.readouterr().out.splitlines()]
    assert shown == ["12.3 kB", "5.0 GB", "0 bytes", "12345"]
    show_record(record, as_json=True)
    assert json.loads(capsys.readouterr().out) == record


def test_record(capsys: pytest.CaptureFixture[str]) -> None:
    """One thing is an object, and for people a line for each field."""
    record = {"name": "a", "public": False, "ref_patterns": ["x", "y"]}
    show_record(record, as_json=True)
    assert json.loads(capsys.readouterr().out) == record
    show_record(record, as_json=False)
    assert capsys.readouterr().out == "name          a\npublic        no\nref patterns  x, y\n"


@pytest.mark.parametrize(
    ("value", "text"),
    [("\x1b[31m", "\\x1b[31m"), ("a\rb", "a\\rb"), ("ü 日", "ü 日"), ("\u202e", "\\u202e"), (True, "yes")],
)
def test_cell(value: object, text: str) -> None:
    """A terminal would obey control characters, so they are shown escaped instead of sent."""
    assert cell(value) == text
