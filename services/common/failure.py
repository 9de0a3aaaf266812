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
    # `towpath up` prints the reason itself.
    sys.exit(1 if report(reason) else f"{name}: {reason}")


def report(text: str) -> bool:
    """Send one line to `towpath up`; return False if it is gone, or did not start this process."""
    with suppress(OSError, ValueError, KeyError):
        os.write(int(os.environ[REASON_VARIABLE]), text.encode(errors="replace"))
        return True
    return False


def reason_of(error: Exception) -> str:
    """Return the message of an error in one line; for settings, with the variable of each invalid setting."""
    if isinstance(error, ValidationError):
        return "; ".join(f"{_variable(found['loc'])}{found['msg'].lower()}" for found in error.errors())
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip()) or type(error).__name__


def _variable(location: tuple[int | str, ...]) -> str:
    # An error about several settings together has no location; its message names them.
    return f"TOWPATH_{'_'.join(str(part) for part in location).upper()}: " if location else ""
