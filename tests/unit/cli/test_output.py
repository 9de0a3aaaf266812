"""What the commands print."""

import json

import pytest

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
    """An empty list is an empty array (trap 18), and for people a word."""
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
        "a               9007199254740993",
        "a longer\\nname",
    ]


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
    """What a terminal would obey is shown instead of sent."""
    assert cell(value) == text
