"""JSON and timestamps as strict as clients read them."""

import pytest

from services.conformance.strict_json import is_timestamp, parse


@pytest.mark.parametrize("content", [b"", b"{", b"\xff", b'{"a":1,"a":2}', b'{"a":NaN}', b"[" * 200_000])
def test_what_is_no_strict_json_is_refused(content: bytes) -> None:
    """A key that stands twice has two readings, and NaN none."""
    with pytest.raises(ValueError):  # noqa: PT011 - any text
        parse(content)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-31T12:00:00Z", True),
        ("2026-01-31T12:00:00+02:00", True),
        ("2026-01-31T12:00:00.5Z", False),
        ("2026-01-31t12:00:00z", False),
        ("2026-01-31 12:00:00Z", False),
        ("2026-01-31T12:00:00", False),
        ("2026-01-31T12:00:00+0200", False),
        ("2026-01-31T12:00:00Z\n", False),
        ("", False),
    ],
)
def test_a_timestamp_is_uppercase_rfc_3339_in_seconds(text: str, expected: bool) -> None:
    """Clients refuse any other form, and a whole answer with it."""
    assert is_timestamp(text) is expected
