"""People at work: real git-lfs clients that push, pull and lock until they are told to stop."""

import threading
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

from tests.support.git import Workspace, shared_repository
from tests.support.http import content, oid_of
from tests.support.waiting import blocking_until

_SIZES = (1_000, 300_000, 3_000_000)
# Longer than any outage that a client is to wait out, with all of its retries.
_COMMAND_SECONDS = 120
_REST_SECONDS = 1.0


@dataclass
class Ledger:
    """Everything that the service has acknowledged to one client."""

    files: dict[str, bytes] = field(default_factory=dict)
    """The pushed files, by path."""
    locks: dict[str, str] = field(default_factory=dict)
    """The paths of the locks that must stand, by id."""
    unlocked: set[str] = field(default_factory=set)
    """The ids of the locks that must be gone."""


class Worker:
    """One person: commits and pushes files, takes and gives back locks, and pulls everything at a second computer.

    A command that fails ends the work and is told by `failure`: nobody is there who would repeat it.
    """

    def __init__(self, name: str, home: Path, token: str, *, origin: str, repository: str, trust: Path) -> None:
        self.name = name
        # Others of this name have worked in the repository before.
        self._folder = f"{home.parent.name}/{name}"
        self.ledger = Ledger()
        self.rounds = 0
        self.failure: BaseException | None = None
        self._stop = threading.Event()
        self._url = f"{origin}/{repository}"
        self._remote = home / "remote.git"

        def computer_called(purpose: str) -> Workspace:
            return computer(home / purpose, name, token, origin=origin, trust=trust)

        self._computer = computer_called
        self._clone = shared_repository(self._computer("desk"), self._remote, lfs_url=self._url)
        self._clone.git("config", f"lfs.{self._url}.locksverify", "true")
        self._other = self._computer("other").clone(self._remote, lfs_url=self._url)
        self._thread = threading.Thread(target=self._work, name=name)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """Finish the round that was begun, and end."""
        self._stop.set()
        self._thread.join(300)
        assert not self._thread.is_alive(), f"{self.name} does not end"

    def require_pushed(self) -> None:
        """Clone what was pushed on a computer that has nothing, and hold that it is all there."""
        clone = self._computer("fresh").clone(self._remote, lfs_url=self._url)
        clone.fsck()
        changed = [path for path, data in self.ledger.files.items() if (clone.path / path).read_bytes() != data]
        assert self.ledger.files
        assert changed == []

    def _work(self) -> None:
        try:
            while not self._stop.is_set():
                self._round(self.rounds + 1)
                self.rounds += 1
                # Else most of what a small machine does is rounds that no test waits for.
                self._stop.wait(_REST_SECONDS)
        except BaseException as error:  # whatever it is, the test tells it
            self.failure = error

    def _round(self, number: int) -> None:
        files = {
            f"{self._folder}/{number}-{size}.dat": content(f"{self._folder} {number} {size}", size) for size in _SIZES
        }
        kept, given_back = (self._lock(f"{self._folder}/{number}-{kind}.dat") for kind in ("kept", "given-back"))
        self._clone.commit(files)
        self._clone.git("push", "--quiet", "origin", "main", seconds=_COMMAND_SECONDS)
        self.ledger.files.update(files)
        del self.ledger.locks[given_back]
        self._clone.lfs("unlock", f"--id={given_back}", seconds=_COMMAND_SECONDS)
        self.ledger.unlocked.add(given_back)
        self._other.git("pull", "--quiet", seconds=_COMMAND_SECONDS)
        for path, data in files.items():
            assert oid_of((self._other.path / path).read_bytes()) == oid_of(data), path
        assert kept in self.ledger.locks

    def _lock(self, path: str) -> str:
        self._clone.lfs("lock", path, seconds=_COMMAND_SECONDS)
        listed = self._clone.lfs("locks", f"--path={path}", seconds=_COMMAND_SECONDS).stdout.split()
        assert listed[1] == self.name, listed
        lock_id = listed[2].removeprefix("ID:")
        self.ledger.locks[lock_id] = path
        return lock_id


def computer(home: Path, user: str, token: str, *, origin: str, trust: Path) -> Workspace:
    """Return a computer that trusts the certificate authority of the proxy."""
    workspace = Workspace(home, user, token, origin=origin)
    workspace.git("config", "--global", "http.sslCAInfo", str(trust))
    return workspace


class Crew:
    """Several workers at once; as a context they work until its end, and then none must have failed."""

    def __init__(self, workers: list[Worker]) -> None:
        self.workers = workers

    def __enter__(self) -> Self:
        """Begin, and return once each has done a whole round."""
        for worker in self.workers:
            worker.start()
        self.wait_for_rounds(1)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Let each finish its round."""
        for worker in self.workers:
            worker.stop()
        if error is None:
            self._require_success()

    def wait_for_rounds(self, count: int, *, seconds: float = 120) -> None:
        """Wait until each has done so many rounds more, so that what happened in between was seen by all."""
        goals = [worker.rounds + count for worker in self.workers]

        def is_done() -> bool:
            self._require_success()
            return all(worker.rounds >= goal for worker, goal in zip(self.workers, goals, strict=True))

        blocking_until(is_done, f"all come to {goals} rounds", seconds=seconds)

    def _require_success(self) -> None:
        failures = [worker.failure for worker in self.workers if worker.failure is not None]
        if failures:
            raise ExceptionGroup("clients failed", [f for f in failures if isinstance(f, Exception)]) from None
