"""Child process of `towpath up`. It is started again whenever it ends or hangs, until it dies too often."""

import asyncio
import math
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from services.cli.errors import CommandError
from services.cli.processes import describe, end, open_pipe, read_reason
from services.cli.unprivileged.account import OURSELVES, RunAs
from services.common.failure import REASON_VARIABLE
from services.common.lifecycle import HEARTBEAT_SECONDS
from services.common.observability.logs import get_logger

_DEATHS = 5
_DEATHS_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 2.0
_PROBE_SECONDS = 2.0
"""The seconds between two probes of a process that sends no heartbeats, and the most that a probe may take."""
_MAX_BEATS = 65_536
_HEARTBEAT_VARIABLE = "TOWPATH_HEARTBEAT_FD"

Work = Callable[[], Coroutine[Any, Any, None]]
Question = Callable[[], Awaitable[bool]]

_log = get_logger(__name__)


async def nothing() -> None:
    """Do nothing."""


@dataclass(frozen=True)
class Program:
    """The program of a child. `prepare` is awaited before each start; `ready` after it, until the program answers."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    inherited: Sequence[int] = ()
    tells_why: bool = False
    """True for a process of Towpath: it reports the reason for its end; see `services.common.failure`."""
    run_as: RunAs = OURSELVES
    stop_signal: signal.Signals = signal.SIGTERM
    prepare: Work = nothing
    ready: Work = nothing
    hang_seconds: float = 0.0
    """The seconds without a sign of life after which the process is killed; 0 for no limit. A process that uses the
    processor is busy: it is not killed, because all its transfers would end with it."""
    answers: Question | None = None
    """The probe for a sign of life. Without a probe, a process that `tells_why` is watched by its heartbeats."""


class Child:
    """One program, started again whenever it ends, until `stop`.

    `ready` is set when the program first answers. `ended` fails with the error when the child is given up.
    """

    def __init__(self, program: Program) -> None:
        self.name = program.name
        self.ready = asyncio.Event()
        self._program = program
        self._deaths: deque[float] = deque()
        self._stop_at = 0.0
        self.ended = asyncio.create_task(self._keep_running())

    async def stop(self, deadline: float) -> None:
        """End the program by its stop signal, and by SIGKILL if it still runs at `deadline` (of `time.monotonic`)."""
        self._stop_at = deadline
        self.ended.cancel()
        with suppress(asyncio.CancelledError, CommandError):
            await self.ended

    async def _keep_running(self) -> None:
        while True:
            await self._program.prepare()
            status, reason = await self._run()
            now = time.monotonic()
            self._deaths.append(now)
            while self._deaths[0] < now - _DEATHS_SECONDS:
                self._deaths.popleft()
            if len(self._deaths) > _DEATHS:
                raise CommandError(
                    f"{self.name} died {len(self._deaths)} times within {_DEATHS_SECONDS:.0f} s, "
                    f"the last time with {describe(status)}{reason and f': {reason}'}"
                )
            pause = min(_FIRST_PAUSE_SECONDS * 2 ** (len(self._deaths) - 1), _MAX_PAUSE_SECONDS)
            _log.warning(
                f"{self.name} died and is started again",
                status=describe(status),
                pause_seconds=pause,
                **({"reason": reason} if reason else {}),
            )
            await asyncio.sleep(pause)

    async def _run(self) -> tuple[int, str]:
        """Run the program to its end, and return its status and the reason that it reports ("" for none)."""
        program = self._program
        if not program.tells_why:
            return await self._run_with(program.environment, (), program.answers), ""
        with open_pipe() as (reason, telling), open_pipe() as (beats, beating):
            environment = {**program.environment, REASON_VARIABLE: str(telling), _HEARTBEAT_VARIABLE: str(beating)}
            status = await self._run_with(environment, (telling, beating), program.answers or _heartbeats(beats))
            return status, read_reason(reason)

    async def _run_with(
        self, environment: Mapping[str, str], inherited: Sequence[int], answers_now: Question | None
    ) -> int:
        process = await asyncio.create_subprocess_exec(
            *self._program.run_as.command(self._program.command),
            stdin=subprocess.DEVNULL,
            # The standard output of `up` is for its own lines only.
            stdout=sys.stderr,
            stderr=sys.stderr,
            env=environment,
            pass_fds=(*self._program.run_as.inherited, *self._program.inherited, *inherited),
            # A Ctrl-C must not reach the child: `up` stops its children in order.
            start_new_session=True,
        )
        ended = asyncio.create_task(process.wait())
        answers = asyncio.create_task(self._program.ready())
        watch = asyncio.create_task(self._kill_where_it_hangs(process, answers_now))
        try:
            await asyncio.wait((ended, answers), return_when=asyncio.FIRST_COMPLETED)
            if answers.done():
                answers.result()
                self.ready.set()
            return await asyncio.shield(ended)
        finally:
            answers.cancel()
            watch.cancel()
            await end(process, self._program.stop_signal, self._stop_at)
            ended.cancel()

    async def _kill_where_it_hangs(self, process: asyncio.subprocess.Process, answers: Question | None) -> None:
        seconds = self._program.hang_seconds
        if answers is None or not seconds:
            return
        interval = _PROBE_SECONDS if self._program.answers else HEARTBEAT_SECONDS
        await _until_it_hangs(answers, _is_busy(process.pid), interval=interval, seconds=seconds)
        _log.error(f"{self.name} hangs and is killed", pid=process.pid, silent_seconds=seconds)
        # SIGKILL: a process that hangs does not react to another signal.
        with suppress(ProcessLookupError):
            process.kill()


async def _until_it_hangs(answers: Question, is_busy: Callable[[], bool], *, interval: float, seconds: float) -> None:
    """Return once `answers` and `is_busy`, called every `interval` seconds, have returned False for `seconds`.

    Before the first answer, the process is starting and may be silent for long. The limit counts consecutive probes,
    not time: if this process itself could not probe, such as on a machine that slept or is overloaded, the other
    process had no chance to answer either.
    """
    limit = max(2, math.ceil(seconds / interval))
    has_answered, silent = False, 0
    while silent < limit:
        _, is_alive = await asyncio.gather(asyncio.sleep(interval), answers())
        has_answered |= is_alive
        silent = 0 if is_busy() or is_alive or not has_answered else silent + 1


def _is_busy(pid: int) -> Callable[[], bool]:
    """Return a question about a process: whether it has used a tenth of a core or more since the last call."""
    since, used = time.monotonic(), _processor_seconds(pid)

    def is_busy() -> bool:
        nonlocal since, used
        passed, since = time.monotonic() - since, time.monotonic()
        before, used = used, _processor_seconds(pid)
        return used - before >= passed / 10

    return is_busy


def _processor_seconds(pid: int) -> float:
    """Return the processor time of a process and its threads, in steps of 10 ms; 0 once it has ended."""
    try:
        # proc_pid_stat(5): the name of the program, in brackets, may have spaces.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _heartbeats(descriptor: int) -> Question:
    """Return a question about the reading end of a heartbeat pipe: whether heartbeats arrived since the last call."""
    os.set_blocking(descriptor, False)

    async def has_beaten() -> bool:
        with suppress(BlockingIOError):
            return bool(os.read(descriptor, _MAX_BEATS))
        return False

    return has_beaten
