"""Processes: their run to an end, the pipes to them, and a description of their end."""

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TextIO

from services.cli.errors import CommandError
from services.common.failure import REASON_VARIABLE

_KILLED_SECONDS = 60.0
_REASON_BYTES = 4096


async def run_once(
    name: str, command: Sequence[str], environment: Mapping[str, str], *, inherited: Sequence[int] = (), seconds: float
) -> tuple[str, str]:
    """Run a command to its end; return its standard output, and the line that it sent as its reason ("" for none).

    Its errors go to this process's standard error. Raises `CommandError` if the command's exit status is not 0 or it
    runs longer than `seconds`.
    """
    with open_pipe() as (reason, telling):
        status, output = await run_to_end(
            name,
            command,
            {**environment, REASON_VARIABLE: str(telling)},
            (*inherited, telling),
            seconds=seconds,
            stop_seconds=1,
        )
        message = read_reason(reason)
    text = output.decode(errors="replace")
    if status != 0:
        sys.stderr.write(text)
        raise CommandError(f"{name} failed with {describe(status)}: {message or 'why is told above'}")
    return text, message


async def run_to_end(
    name: str,
    command: Sequence[str],
    environment: Mapping[str, str],
    inherited: Sequence[int],
    *,
    errors: TextIO | int | None = None,
    seconds: float | None = None,
    stop_seconds: float,
) -> tuple[int, bytes]:
    """Run a command and return its exit status, as asyncio's `returncode`, and its standard output.

    Its errors go to `errors`, or to this process's standard error. A command that still runs after `seconds`, or when
    this call is cancelled, gets SIGTERM, and SIGKILL `stop_seconds` later. Raises `CommandError` after `seconds`.
    """
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=errors or sys.stderr,
        env=environment,
        pass_fds=inherited,
        # A Ctrl-C must not reach the command before this process sends SIGTERM.
        start_new_session=True,
    )
    try:
        # Not `wait_for`: it loses a cancellation that arrives as the process ends (CPython 3.11).
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        raise CommandError(f"{name}: no end after {seconds:.0f} s") from None
    finally:
        await end(process, signal.SIGTERM, time.monotonic() + stop_seconds)
    return process.returncode or 0, output


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


@contextmanager
def open_pipe() -> Iterator[tuple[int, int]]:
    """Open a pipe for the duration of the block, and yield its reading and its writing end."""
    reading, writing = os.pipe()
    try:
        yield reading, writing
    finally:
        os.close(reading)
        os.close(writing)


def read_reason(descriptor: int) -> str:
    """Return the reason that a process of Towpath has sent through a pipe until its end; "" if it has sent none."""
    os.set_blocking(descriptor, False)
    try:
        return os.read(descriptor, _REASON_BYTES).decode(errors="replace")
    except BlockingIOError:
        return ""


def describe(status: int) -> str:
    """Return a description of a process's end, from asyncio's `returncode`."""
    if status >= 0:
        return f"exit status {status}"
    try:
        return signal.Signals(-status).name
    except ValueError:
        return f"signal {-status}"
