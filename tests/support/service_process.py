"""A service as its own process."""

import os
import signal
import ssl
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.waiting import STEP_SECONDS, until_answer


def environment_of(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a service that has these settings and no others."""
    named = {f"TOWPATH_{name.upper()}": str(value) for name, value in settings.items()}
    kept = {name: text for name, text in os.environ.items() if not name.startswith("TOWPATH_")}
    return {**kept, **named}


@contextmanager
def service_process(
    service: str,
    log: Path,
    *,
    descriptors: tuple[int, ...] = (),
    settings: dict[str, Any],
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a service with these settings, writing its log to a file; it is killed at the end if it still runs."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [sys.executable, "-m", f"services.{service}"],
            stdout=output,
            stderr=output,
            env=environment_of(settings),
            pass_fds=descriptors,
        )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.wait(STEP_SECONDS)


@contextmanager
def standing_still(processes: Iterable[int]) -> Iterator[None]:
    """Stop processes, by their ids, and let them go on at the end."""
    held = list(processes)
    for process in held:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in held:
            os.kill(process, signal.SIGCONT)


async def wait_ready(origin: str, status: int = 200, *, verify: ssl.SSLContext | bool = True) -> None:
    """Wait until a facade says that it is ready, or with another status that it is not."""
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, verify=verify) as http:

        async def readiness() -> int:
            return (await http.get(f"{origin}/readyz")).status_code

        await until_answer(status, readiness)
