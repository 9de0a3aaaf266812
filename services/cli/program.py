"""Runner of `python -m services.backup` and `services.transfer`, the programs that do the work of some commands.

The commands themselves use no SQL, and know no object store.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from services.cli.errors import CommandError
from services.cli.processes import describe, open_pipe, run_to_end
from services.cli.up.programs import python

_STOP_SECONDS = 10.0


@dataclass(frozen=True)
class Outcome:
    """The outcome of the program: its printed report, and whether its exit status is 0."""

    report: Mapping[str, Any]
    well: bool


class ProgramFailed(CommandError):
    """The program has failed, and has printed the reason."""


async def run_program(
    arguments: list[str],
    environment: Mapping[str, str],
    inherited: Sequence[int] = (),
    *,
    module: str = "services.backup",
) -> Outcome:
    """Run a program to its end, without a timeout; the program stops when this process ends.

    The program's errors go to the standard error. Raises `ProgramFailed` if it has printed nothing on its standard
    output, and `CommandError` if a signal ended it.
    """
    with open_pipe() as (lifeline, _):
        status, output = await run_to_end(
            arguments[0],
            python(module, *arguments),
            {**environment, "TOWPATH_LIFELINE_FD": str(lifeline)},
            [lifeline, *inherited],
            stop_seconds=_STOP_SECONDS,
        )
    if status < 0:
        raise CommandError(f"the {arguments[0]} ended with {describe(status)}")
    if not output:
        raise ProgramFailed
    return Outcome(json.loads(output), status == 0)
