"""A second facade in front of the services of a `towpath up`."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import httpx

from tests.support.ports import free_address
from tests.support.stack import Stack
from tests.support.waiting import START_SECONDS, STEP_SECONDS, blocking_until


@dataclass
class SecondFacade:
    """It has the settings of the stack's own facade, but for its address `HOST:PORT` and those that are `other`."""

    stack: Stack
    listen: str
    log: Path
    other: Mapping[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        told = self.stack.service("facade").environ()
        settings = {name: text for name, text in told.items() if name.startswith("TOWPATH_")}
        # Pipes of `towpath up`, which this process has not inherited.
        del settings["TOWPATH_LIFELINE_FD"], settings["TOWPATH_HEARTBEAT_FD"]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "services.facade"],
                stdout=log,
                stderr=log,
                env={**os.environ, **settings, **self.other, "TOWPATH_LISTEN": self.listen},
            )
        with httpx.Client(trust_env=False, timeout=STEP_SECONDS) as http:
            blocking_until(lambda: self._is_ready(http), "the second facade is ready", seconds=START_SECONDS)

    def _is_ready(self, http: httpx.Client) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log.read_text()
        try:
            return http.get(f"http://{self.listen}/readyz").status_code == httpx.codes.OK
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """Stop it as an operator does; it ends well."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(STEP_SECONDS) == 0, self.log.read_text()

    def kill(self) -> None:
        """Kill it."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(STEP_SECONDS)


@contextmanager
def running_second_facade(stack: Stack, log: Path, **other: str) -> Iterator[str]:
    """Run a second facade, some of whose settings are other ones, and yield its origin."""
    facade = SecondFacade(stack, free_address(), log, other)
    facade.start()
    try:
        yield f"http://{facade.listen}"
    finally:
        facade.stop()
