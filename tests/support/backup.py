"""The commands of `services.backup` as processes, and an installation of storage and locks to run them on."""

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SecretStr

from tests.support.commands import finished
from tests.support.locks import RunningLocks, running_locks
from tests.support.storage import RunningStorage, running_storage


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
            *self._command(arguments),
            env=self._environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    async def run(self, *arguments: str | Path, status: int = 0) -> Answer:
        """Run it to its end; fail unless its exit status is `status`."""
        done = await asyncio.to_thread(finished, self._command(arguments), env=self._environment)
        assert done.returncode == status, done.stderr
        return Answer(status, json.loads(done.stdout) if done.stdout else None, done.stderr)

    def _command(self, arguments: Sequence[str | Path]) -> list[str | Path]:
        return [sys.executable, "-m", "services.backup", *arguments]

    @property
    def _environment(self) -> dict[str, str]:
        return {
            **os.environ,
            "TOWPATH_STORAGE_DATABASE_URL": self.database_url.get_secret_value(),
            "TOWPATH_STORAGE_URL": self.bytes.as_uri(),
        }


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
