"""Runner of `python -m services.backup`, the program that does the work: the command itself uses no SQL."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from services.cli.errors import CommandError
from services.cli.up.child import describe, end
from services.cli.up.programs import python

_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of the program: its printed report, and whether its exit status is 0."""

    report: Mapping[str, Any]
    well: bool


class ProgramFailed(CommandError):
    """The program has failed, and has printed the reason."""


async def run_program(arguments: list[str], environment: Mapping[str, str], inherited: Sequence[int] = ()) -> Outcome:
    """Run the program to its end, without a timeout; the program stops when this process ends.

    The program's errors go to the standard error. Raises `ProgramFailed` if it has printed nothing on its standard
    output, and `CommandError` if a signal ended it.
    """
    with ExitStack() as owned:
        lifeline, held = os.pipe()
        owned.callback(os.close, held)
        owned.callback(os.close, lifeline)
        process = await asyncio.create_subprocess_exec(
            *python("services.backup", *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            env={**environment, "TOWPATH_LIFELINE_FD": str(lifeline)},
            pass_fds=[lifeline, *inherited],
            # A Ctrl-C must not reach the program before this process sends SIGTERM.
            start_new_session=True,
        )
        try:
            output, _ = await process.communicate()
        finally:
            await end(process, signal.SIGTERM, time.monotonic() + _STOP_SECONDS)
    status = process.returncode or 0
    if status < 0:
        raise CommandError(f"the {arguments[0]} ended with {describe(status)}")
    if not output:
        raise ProgramFailed
    return Outcome(json.loads(output), status == 0)
