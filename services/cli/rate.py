"""How much a second: the one form of `--rate`, whichever command it is of."""

import re

import typer

_MEBIBYTE = 1024**2
_UNITS = {"": _MEBIBYTE, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 1024, "MIB": _MEBIBYTE, "GIB": 1024**3}
_FORM = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)", re.ASCII)
# Nothing is as fast; it is somebody who means bytes.
_MOST_MEBIBYTES = 1_000_000

METAVAR = "MIB"
HELP = "The most MiB a second, or with a unit, such as 100MB; 0 for no limit."


def parse_rate(text: str) -> int:
    """Return the bytes a second of a number of MiB, or of a number with its unit. Raises typer's usage error."""
    found = _FORM.fullmatch(text.strip())
    unit = _UNITS.get(found[2].upper()) if found else None
    if found is None or unit is None:
        raise typer.BadParameter("expected a number of MiB, or one with kB, MB, GB, KiB, MiB or GiB")
    if not found[2] and float(found[1]) >= _MOST_MEBIBYTES:
        raise typer.BadParameter(f"expected fewer than {_MOST_MEBIBYTES} MiB; for bytes, give a unit such as MB")
    return int(float(found[1]) * unit)
