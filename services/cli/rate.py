"""The option `--rate`: a number of MiB per second, or a number with its unit."""

import re
from typing import Any

import typer

MEBIBYTE = 1024**2
_UNITS = {"": MEBIBYTE, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1024, "MIB": MEBIBYTE, "GIB": 1024**3}
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
# No store is this fast: a number without a unit that is this large is meant as bytes.
_MAX_MEBIBYTES = 1_000_000


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
    found = _FORM.fullmatch(value.strip())
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise typer.BadParameter("expected a number of MiB, or one with kB, MB, GB, KiB, MiB or GiB")
    if not found[2] and float(found[1]) >= _MAX_MEBIBYTES:
        raise typer.BadParameter(f"expected fewer than {_MAX_MEBIBYTES} MiB; for bytes, give a unit such as MB")
    return int(float(found[1]) * unit)
