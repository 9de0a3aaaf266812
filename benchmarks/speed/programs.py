"""Programs that are run: several until they end, or a server while something is done."""

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import psutil

_START_SECONDS = 30.0
_STOP_SECONDS = 15.0
_PAUSE = 0.01


def find(name: str) -> str | None:
    """Return where a program is, if it is installed."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/usr/local/sbin")


def output_of(*command: str | Path) -> str:
    """Return what a program prints on either stream. Raises `OSError` or `subprocess.SubprocessError`."""
    told = subprocess.run(  # noqa: S603 - our own commands
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=_START_SECONDS, check=True
    )
    return told.stdout.strip()


def run_all(commands: Sequence[Sequence[str]], *, seconds: float) -> tuple[list[str], float]:
    """Run programs at once; return what each printed, and the seconds from the first's start to the last's end.

    Raises AssertionError where one fails, and `subprocess.TimeoutExpired` where one has not ended by then.
    """
    began = time.perf_counter()
    running = [
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)  # noqa: S603 - our own
        for command in commands
    ]
    try:
        told = [process.communicate(timeout=seconds) for process in running]
        passed = time.perf_counter() - began
    finally:
        for process in running:
            if process.poll() is None:
                process.kill()
                process.wait()
    for process, (_, errors) in zip(running, told, strict=True):
        # Not its arguments: credentials are among them.
        assert process.returncode == 0, f"{commands[0][0]}: exit {process.returncode}: {errors}"
    return [output for output, _ in told], passed


@contextmanager
def server(command: Sequence[str | Path], origin: str, folder: Path, environment: Mapping[str, str]) -> Iterator[int]:
    """Run a server, from when it answers over HTTP; yield the id of its first process.

    Raises AssertionError with the end of its log where it does not answer.
    """
    log = folder / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own commands
            command, cwd=folder, env={**os.environ, **environment}, stdout=output, stderr=output, start_new_session=True
        )
    try:
        _wait_answering(process, origin, log)
        yield process.pid
    finally:
        _stop(process)


def _wait_answering(process: subprocess.Popen[bytes], origin: str, log: Path) -> None:
    deadline = time.monotonic() + _START_SECONDS
    with httpx.Client(trust_env=False, timeout=_START_SECONDS) as client:
        while True:
            try:
                client.get(f"{origin}/")
            except httpx.TransportError:
                late = process.poll() is not None or time.monotonic() > deadline
                assert not late, f"no answer; its log:\n{log.read_text(errors='replace')[-2000:]}"
                time.sleep(_PAUSE)
            else:
                return


def _stop(process: subprocess.Popen[bytes]) -> None:
    try:
        family = psutil.Process(process.pid).children(recursive=True)
    except psutil.NoSuchProcess:
        family = []
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    for child in psutil.wait_procs(family, timeout=_STOP_SECONDS)[1]:
        child.kill()
