"""The end of a process that cannot do its work: one line with the reason, for the log and for `towpath up`."""

import os
import sys
from contextlib import suppress
from typing import NoReturn

from pydantic import ValidationError

REASON_VARIABLE = "TOWPATH_REASON_FD"
"""The environment variable with the descriptor of a pipe that `towpath up` reads the reason from."""


def fail(name: str, error: Exception) -> NoReturn:
    """End the process of this name with status 1; the reason goes to `towpath up`, or else to the standard error."""
    reason = reason_of(error)
    # Who is told says it in a line of its own.
    sys.exit(1 if tell(reason) else f"{name}: {reason}")


def tell(text: str) -> bool:
    """Tell `towpath up` in one line how it went; False where it is gone, or never has been."""
    with suppress(OSError, ValueError, KeyError):
        os.write(int(os.environ[REASON_VARIABLE]), text.encode(errors="replace"))
        return True
    return False


def reason_of(error: Exception) -> str:
    """Return in one line what an error says; of settings, the variable of each that cannot be used."""
    if isinstance(error, ValidationError):
        return "; ".join(f"{_variable(found['loc'])}{found['msg'].lower()}" for found in error.errors())
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def _variable(location: tuple[int | str, ...]) -> str:
    # A rule for several settings together has no place; its message names them.
    return f"TOWPATH_{'_'.join(str(part) for part in location).upper()}: " if location else ""
