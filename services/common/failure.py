"""The end of a process that cannot do its work: one line with the reason, for the log and for `towpath up`."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

from pydantic import ValidationError

REASON_VARIABLE = "TOWPATH_REASON_FD"
"""The environment variable with the descriptor of a pipe that `towpath up` reads the reason from."""


def fail(name: str, error: Exception) -> NoReturn:
    """End the process of this name with status 1; the reason goes to the standard error and to `towpath up`."""
    reason = reason_of(error)
    # `towpath up` may be gone, or never have been.
    with suppress(OSError, ValueError, KeyError):
        os.write(int(os.environ[REASON_VARIABLE]), reason.encode(errors="replace"))
    sys.exit(f"{name}: {reason}")


def reason_of(error: Exception) -> str:
    """Return in one line what an error says; of settings, the variable of each that cannot be used."""
    if isinstance(error, ValidationError):
        return "; ".join(f"{_variable(found['loc'])}{found['msg'].lower()}" for found in error.errors())
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def _variable(location: tuple[int | str, ...]) -> str:
    # A rule for several settings together has no place; its message names them.
    return f"TOWPATH_{'_'.join(str(part) for part in location).upper()}: " if location else ""
