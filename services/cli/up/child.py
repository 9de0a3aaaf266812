"""Child process of `towpath up`. It is started again whenever it ends, until it dies too often."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from services.cli.errors import CommandError
from services.cli.unprivileged.run_as import OURSELVES, RunAs
from services.cli.up.watch import PROBE_SECONDS, Question, heartbeats, until_it_hangs
from services.common.failure import REASON_VARIABLE
from services.common.lifecycle import HEARTBEAT_SECONDS
from services.common.observability.logs import get_logger

_DEATHS = 5
_DEATHS_SECONDS = 60.0
_FIRST_PAUSE_SECONDS = 0.1
_MAX_PAUSE_SECONDS = 2.0
_KILLED_SECONDS = 60.0
_REASON_BYTES = 4096
_HEARTBEAT_VARIABLE = "TOWPATH_HEARTBEAT_FD"

Work = Callable[[], Coroutine[Any, Any, None]]

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
    """The seconds without a sign of life after which the process is killed; 0 for no limit."""
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
        with (
            reason_pipe(program.environment) as (environment, inherited, reason),
            _heartbeat_pipe(environment) as (environment, beating, has_beaten),
        ):
            status = await self._run_with(environment, (*inherited, beating), program.answers or has_beaten)
            return status, reason()

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
        interval = PROBE_SECONDS if self._program.answers else HEARTBEAT_SECONDS
        await until_it_hangs(answers, interval=interval, seconds=seconds)
        _log.error(f"{self.name} hangs and is killed", pid=process.pid, silent_seconds=seconds)
        # SIGKILL: a process that hangs does not react to another signal.
        with suppress(ProcessLookupError):
            process.kill()


async def end(process: asyncio.subprocess.Process, stop_signal: signal.Signals, deadline: float) -> None:
    """End a process by the signal, or by SIGKILL if it still runs at `deadline` (of `time.monotonic`).

    Raises TimeoutError if the process survives SIGKILL for 60 s.
    """
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(stop_signal)
    if await _ends_within(process, max(0.0, deadline - time.monotonic())):
        return
    with suppress(ProcessLookupError):
        process.kill()
    if not await _ends_within(process, _KILLED_SECONDS):
        raise TimeoutError(f"the process {process.pid} does not end, though it was killed")


async def _ends_within(process: asyncio.subprocess.Process, seconds: float) -> bool:
    """Return whether a process ends within `seconds`; this works in a task that is being cancelled, too.

    In such a task, `asyncio.timeout` of Python 3.11.2 raises the cancellation instead of `TimeoutError`.
    """
    waiting = asyncio.create_task(process.wait())
    try:
        await asyncio.wait((waiting,), timeout=seconds)
    finally:
        waiting.cancel()
    return process.returncode is not None


class Outcome(NamedTuple):
    """The standard output of a command, and the line that it sent through the reason pipe ("" for none)."""

    output: str
    told: str


async def run_once(
    name: str, command: Sequence[str], environment: Mapping[str, str], *, inherited: Sequence[int] = (), seconds: float
) -> Outcome:
    """Run a command to its end and return its outcome; its errors go to this process's standard error.

    Raises `CommandError` if the command's exit status is not 0 or it runs longer than `seconds`.
    """
    with reason_pipe(environment) as (environment, pipe, reason):
        process = await asyncio.create_subprocess_exec(
            *command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=sys.stderr,
            env=environment,
            pass_fds=[*inherited, *pipe],
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(seconds):
                output, _ = await process.communicate()
        except TimeoutError:
            raise CommandError(f"{name}: no end after {seconds:.0f} s") from None
        finally:
            await end(process, signal.SIGTERM, time.monotonic() + 1)
        text = output.decode(errors="replace")
        told = reason()
        if process.returncode != 0:
            sys.stderr.write(text)
            why = told or "why is told above"
            raise CommandError(f"{name} failed with {describe(process.returncode or 0)}: {why}")
        return Outcome(text, told)


@contextmanager
def _heartbeat_pipe(environment: Mapping[str, str]) -> Iterator[tuple[Mapping[str, str], int, Question]]:
    """Open a pipe for heartbeats.

    Yields the environment and the descriptor that the process needs, and the question whether it has sent any.
    """
    reading, writing = os.pipe()
    try:
        yield {**environment, _HEARTBEAT_VARIABLE: str(writing)}, writing, heartbeats(reading)
    finally:
        os.close(reading)
        os.close(writing)


@contextmanager
def reason_pipe(
    environment: Mapping[str, str],
) -> Iterator[tuple[Mapping[str, str], Sequence[int], Callable[[], str]]]:
    """Open a pipe for the reason that a process of Towpath reports at its end.

    Yields the environment and the descriptors that the process needs, and a function that returns the reason once the
    process has ended.
    """
    reading, writing = os.pipe()
    try:
        os.set_blocking(reading, False)

        def reason() -> str:
            try:
                return os.read(reading, _REASON_BYTES).decode(errors="replace")
            except BlockingIOError:
                return ""

        yield {**environment, REASON_VARIABLE: str(writing)}, (writing,), reason
    finally:
        os.close(reading)
        os.close(writing)


def describe(status: int) -> str:
    """Return a description of a process's end, from asyncio's `returncode`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
