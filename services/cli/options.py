"""Options that several commands share, and the confirmation of a removal that one of them skips."""

import re
import sys
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.request_rate import UNLIMITED, parse_request_rate

MEBIBYTE = 1024**2
_UNITS = {"": MEBIBYTE, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1024, "MIB": MEBIBYTE, "GIB": 1024**3}
_RATE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
# No store is this fast: a number without a unit that is this large is meant as bytes.
_MAX_MEBIBYTES = 1_000_000
# At most 999 years, so that a span from now ends and begins at a date.
_SPAN = re.compile(r"([1-9][0-9]{0,4})([hdw])|([1-9][0-9]{0,2})(y)", re.ASCII)
_SPAN_UNITS = {"y": timedelta(days=365), "w": timedelta(weeks=1), "d": timedelta(days=1), "h": timedelta(hours=1)}
_SIZE = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]+)(/day)?", re.ASCII)
_SIZE_UNITS = {
    f"{prefix}{unit}": base ** (power + 1)
    for power, prefix in enumerate("KMGTP")
    for unit, base in (("B", 1000), ("IB", 1024))
}
QUOTA = typer.Option(
    "--quota",
    metavar="SIZE",
    help="The bytes of the objects that a user may bring, such as 50GB; none; or default, as is set elsewhere.",
    show_default=False,
)
"""The option of the quota of a user, or of each member of a group."""
_LIMITS = {"none": 0, "default": -1}
_MAX_SIZE = 2**63 - 1
NEVER = "never"
"""The text that stands for no span."""

UP_DATA = Path("var")
"""The default data folder of `towpath up`."""

# The default is None, not `UP_DATA`: without --data, TOWPATH_SERVER may name another stack; see `connection.Target`.
Data = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="The data folder of a `towpath up` on this host; by default TOWPATH_DATA, or var.",
        show_default=False,
    ),
]
Server = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="The locks service of a remote stack, HOST:PORT, instead of a data folder; by default TOWPATH_SERVER. "
        "The token of an administrator is read from TOWPATH_TOKEN, or from the secret file towpath_admin_token.",
        show_default=False,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask back, as a terminal otherwise does.")]

RequestRate = Annotated[
    str | None,
    typer.Option(
        "--rate",
        metavar="RATE",
        help="The most requests that clients may make, such as 600/min, 10/s or 1000/h; none for no limit, default for "
        "no limit of its own.",
        show_default=False,
    ),
]

User = Annotated[str, typer.Argument(metavar="USER", help="The user's name.", show_default=False)]
Repository = Annotated[
    str, typer.Argument(metavar="REPO", help="The repository's name, such as studio/film.", show_default=False)
]


def confirm(question: str, *, yes: bool) -> None:
    """Ask for confirmation at a terminal; a script is not asked. Raises `typer.Abort` unless the answer is yes."""
    if yes or not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    # Not `typer.confirm`: it writes to the standard output as well.
    typer.echo(f"{question} [y/N] ", nl=False, err=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise typer.Abort


def rate_option(*, shown_default: str) -> Any:  # noqa: ANN401 - as typer.Option itself
    """Return the option of a command; its default is a number of bytes, shown in the help as `shown_default`."""
    return typer.Option(
        metavar="MIB",
        parser=parse_rate,
        show_default=shown_default,
        help="The most MiB a second, or with a unit, such as 100MB; 0 for no limit.",
    )


def parse_rate(value: str | int) -> int:
    """Return bytes per second, parsed from text; an integer (the option's default) is returned unchanged.

    Raises typer's usage error.
    """
    if isinstance(value, int):
        return value
    found = _RATE.fullmatch(value.strip())
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise typer.BadParameter("expected a number of MiB, or one with kB, MB, GB, KiB, MiB or GiB")
    if not found[2] and float(found[1]) >= _MAX_MEBIBYTES:
        raise typer.BadParameter(f"expected fewer than {_MAX_MEBIBYTES} MiB; for bytes, give a unit such as MB")
    return int(float(found[1]) * unit)


def parse_limit(text: str | None, option: str, *, daily: bool = False) -> int | None:
    """Return a limit in bytes, such as of `500GB`, 0 for `none`, -1 for `default`, and None for None.

    With `daily`, `/day` may follow the unit. Raises typer's usage error.
    """
    if text is None or text in _LIMITS:
        return None if text is None else _LIMITS[text]
    found = _SIZE.fullmatch(text.strip())
    unit = _SIZE_UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None or (found[3] and not daily):
        expected = "1TB/day" if daily else "500GB"
        raise typer.BadParameter(f"expected such as {expected}, none or default, got {text!r}", param_hint=option)
    size = int(Decimal(found[1]) * unit)
    if not 0 < size <= _MAX_SIZE:
        raise typer.BadParameter(f"expected 1 to {_MAX_SIZE} bytes", param_hint=option)
    return size


def parse_request_rate_option(text: str | None) -> pb.RequestRate | None:
    """Return a rate of requests such as `600/min`, `none` or `default`; None for None. Raises typer's usage error."""
    if text is None:
        return None
    if text == "default":
        return pb.RequestRate()
    try:
        return pb.RequestRate(requests_per_hour=UNLIMITED if text == "none" else parse_request_rate(text))
    except ValueError as error:
        raise typer.BadParameter(f"{error}, or none or default", param_hint="--rate") from error


def parse_span(text: str) -> timedelta | None:
    """Return a span of time such as `12h`, `90d`, `4w` or `1y` (365 days); None for any other text."""
    match = _SPAN.fullmatch(text)
    return int(match[1] or match[3]) * _SPAN_UNITS[match[2] or match[4]] if match else None


def parse_seconds(text: str | None, option: str) -> int | None:
    """Return the seconds of a span, 0 for `never`, and None for None. Raises typer's usage error."""
    if text is None or text == NEVER:
        return None if text is None else 0
    span = parse_span(text)
    if span is None:
        raise typer.BadParameter(f"expected such as 12h, 14d, 4w, 1y or {NEVER}, got {text!r}", param_hint=option)
    return int(span.total_seconds())


def format_seconds(seconds: int) -> str:
    """Return a number of seconds as a span of whole years, days or hours, such as `14d`."""
    for unit in "ydh":
        count, rest = divmod(seconds, int(_SPAN_UNITS[unit].total_seconds()))
        if count and not rest:
            return f"{count}{unit}"
    return f"{seconds}s"


def parse_moment(text: str | None, option: str, now: datetime) -> Timestamp | None:
    """Return the moment a span before `now`, or the start of a day (UTC); None for None. Raises typer's usage error."""
    if text is None:
        return None
    if (span := parse_span(text)) is not None:
        return Timestamp(seconds=int((now - span).timestamp()))
    try:
        day = date.fromisoformat(text)
    except ValueError:
        expected = "expected such as 12h, 14d, 4w, 1y or 2026-01-31"
        raise typer.BadParameter(f"{expected}, got {text!r}", param_hint=option) from None
    return Timestamp(seconds=int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()))
