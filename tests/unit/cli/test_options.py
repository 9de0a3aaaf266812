"""Spans and moments, as an operator writes them."""

from datetime import UTC, datetime, timedelta

import pytest
import typer

from services.cli.options import format_seconds, parse_limit, parse_moment, parse_seconds, parse_span

NOW = datetime(2026, 11, 21, 10, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("text", "span"),
    [
        ("12h", timedelta(hours=12)),
        ("14d", timedelta(days=14)),
        ("99999w", timedelta(weeks=99_999)),
        ("1y", timedelta(days=365)),
        ("999y", timedelta(days=365 * 999)),
    ],
)
def test_spans(text: str, span: timedelta) -> None:
    """A number and a unit; a year has 365 days."""
    assert parse_span(text) == span


@pytest.mark.parametrize("text", ["", "d", "0d", "-1d", "1000y", "100000d", "1 d", "1m", "1dd", "1d1h", "٩d"])
def test_texts_that_are_no_span(text: str) -> None:
    """Anything else is none."""
    assert parse_span(text) is None


@pytest.mark.parametrize("text", ["1h", "14d", "1y", "36h", "9d"])
def test_seconds_are_printed_as_they_are_given(text: str) -> None:
    """Every span that a command prints is one that a command takes."""
    seconds = parse_seconds(text, "--stale-after")
    assert seconds is not None
    assert format_seconds(seconds) == text


def test_seconds_in_their_largest_unit() -> None:
    """A span in a smaller unit is printed in the largest that has no rest."""
    assert [format_seconds(seconds) for seconds in (730 * 86_400, 48 * 3600, 90)] == ["2y", "2d", "90s"]


def test_no_seconds() -> None:
    """Never is 0, and an option that is absent is nothing."""
    assert (parse_seconds("never", "--stale-after"), parse_seconds(None, "--stale-after")) == (0, None)
    with pytest.raises(typer.BadParameter, match="'soon'"):
        parse_seconds("soon", "--stale-after")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", NOW - timedelta(hours=2)),
        ("999y", NOW - timedelta(days=365 * 999)),
        ("2026-01-31", datetime(2026, 1, 31, tzinfo=UTC)),
    ],
)
def test_moments(text: str, moment: datetime) -> None:
    """A span ago, or the beginning of a day."""
    parsed = parse_moment(text, "--since", NOW)
    assert parsed is not None
    assert parsed.ToDatetime() == moment.replace(tzinfo=None)


def test_no_moment() -> None:
    """An option that is absent is nothing, and other texts are refused."""
    assert parse_moment(None, "--since", NOW) is None
    with pytest.raises(typer.BadParameter, match="'2026-13-01'"):
        parse_moment("2026-13-01", "--since", NOW)


@pytest.mark.parametrize(
    ("text", "limit"),
    [
        ("500GB", 500 * 10**9),
        ("1.5 TB", 1_500_000_000_000),
        ("1TiB", 1024**4),
        ("0.1kB", 100),
        ("none", 0),
        ("default", -1),
        (None, None),
    ],
)
def test_limits(text: str | None, limit: int | None) -> None:
    """A size in a unit, no limit, or the limit of the settings."""
    assert parse_limit(text, "--quota") == limit


def test_daily_limits() -> None:
    """The day may be said."""
    assert parse_limit("1TB/day", "--bandwidth", daily=True) == parse_limit("1TB", "--bandwidth", daily=True) == 10**12


@pytest.mark.parametrize("text", ["", "5", "GB", "-1GB", "5XB", "1e3GB", "0GB", "10000000TB", "1GB/day", "٩GB"])
def test_texts_that_are_no_limit(text: str) -> None:
    """A number without a unit could mean anything, and is refused."""
    with pytest.raises(typer.BadParameter, match="expected"):
        parse_limit(text, "--quota")
