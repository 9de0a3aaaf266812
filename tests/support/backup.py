"""The commands of `services.backup` as processes, and an installation of storage and locks to run them on."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from tests.support.locks import RunningLocks, running_locks
from tests.support.storage import RunningStorage, running_storage
from tests.support.waiting import STEP_SECONDS


@dataclass(frozen=True)
class Answer:
    """The outcome of a command: its exit status, the document that it printed, and its errors."""

    status: int
    document: Any
    errors: str


@dataclass(frozen=True)
class Place:
    """The place of an installation: its database, and the folder of its bytes."""

    database_url: SecretStr
    folder: Path

    @property
    def bytes(self) -> Path:
        """The root of the bytes, as `tests.support.storage` has it."""
        return self.folder / "bytes"

    async def start(self, *arguments: str | Path) -> asyncio.subprocess.Process:
        """Start `python -m services.backup` on this place."""
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "services.backup", *arguments),
            env={
                **os.environ,
                "TOWPATH_STORAGE_DATABASE_URL": self.database_url.get_secret_value(),
                "TOWPATH_STORAGE_URL": self.bytes.as_uri(),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    async def run(self, *arguments: str | Path, status: int = 0) -> Answer:
        """Run it to its end; fail unless its exit status is `status`."""
        process = await self.start(*arguments)
        try:
            output, errors = await asyncio.wait_for(process.communicate(), timeout=STEP_SECONDS)
        finally:
            if process.returncode is None:
                process.send_signal(signal.SIGKILL)
                await process.wait()
        assert process.returncode == status, errors.decode()
        return Answer(status, json.loads(output) if output else None, errors.decode())


@dataclass(frozen=True)
class Installation:
    """A place, and the services that run on it."""

    place: Place
    storage: RunningStorage
    locks: RunningLocks


@asynccontextmanager
async def running_installation(place: Place, *, locks: Mapping[str, Any] | None = None) -> AsyncIterator[Installation]:
    """Run storage and locks on a place; `locks` are settings of the latter."""
    place.folder.mkdir(parents=True, exist_ok=True)
    async with (
        running_storage(place.database_url, place.folder) as storage,
        running_locks(place.database_url, place.folder, storage_address=storage.address, limits=locks) as locked,
    ):
        yield Installation(place, storage, locked)
