"""The traces that a run leaves on the server: the locks that it made, which it removes, and the objects, which stay."""

import asyncio
import secrets
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any, Protocol

import httpx

from services.conformance.answer import Answer
from services.conformance.outcome import Finding, NotApplicable

_MAX_PAGES = 20
_WAIT_SECONDS = 10.0


class Locker(Protocol):
    """A user who made locks, and can list and remove them."""

    async def locks(self, **query: str | int) -> Answer:
        """List locks."""
        ...

    async def unlock(self, lock_id: str, **fields: object) -> Answer:
        """Delete a lock."""
        ...


@dataclass(frozen=True)
class _Lock:
    path: str
    owner: Locker


class Ledger:
    """The locks and the objects of one run.

    Every path that the run locks begins with `prefix`, which is random; so a lock under it is the run's own.
    """

    def __init__(self) -> None:
        self.prefix = f"towpath-conformance-{secrets.token_hex(8)}"
        self.objects: dict[str, int] = {}
        """The sizes of the objects that the server accepted, by oid: the interface has no way to remove them."""
        self._locks: dict[str, _Lock] = {}
        self._creating: set[asyncio.Task[Answer]] = set()
        self._creators: list[Locker] = []

    async def create(self, creation: Coroutine[Any, Any, Answer], path: str, owner: Locker) -> Answer:
        """Run the creation of a lock to its end, even if the caller is cancelled, and note the lock."""
        if owner not in self._creators:
            self._creators.append(owner)
        task = asyncio.create_task(self._noted(creation, path, owner))
        self._creating.add(task)
        task.add_done_callback(self._creating.discard)
        return await asyncio.shield(task)

    async def _noted(self, creation: Coroutine[Any, Any, Answer], path: str, owner: Locker) -> Answer:
        answer = await creation
        if answer.is_success:
            for lock in _locks_in(answer):
                if lock.get("path", "") == path and isinstance(lock.get("id"), str):
                    self._locks[lock["id"]] = _Lock(path, owner)
        return answer

    def forget(self, lock_id: str) -> None:
        """Note that a lock is gone."""
        self._locks.pop(lock_id, None)

    async def remove_locks(self) -> None:
        """Remove the locks that are known to stand, and leave those that cannot be removed."""
        if self._creating:
            await asyncio.wait(self._creating, timeout=_WAIT_SECONDS)
        for lock_id, lock in tuple(self._locks.items()):
            if await _is_removed(lock.owner, lock_id, force=False) or await _is_removed(
                lock.owner, lock_id, force=True
            ):
                self.forget(lock_id)

    async def sweep(self) -> list[str]:
        """Remove every lock under the prefix that the server lists; return the paths of those that still stand."""
        await self.remove_locks()
        # By each user in turn: a server may say that it removed the lock of another, and keep it.
        for client in self._creators:
            await self._note_listed(client)
            await self.remove_locks()
        for client in self._creators[:1]:
            await self._note_listed(client)
        return self.paths()

    def paths(self) -> list[str]:
        """Return the paths of the locks that are known to stand."""
        return sorted(lock.path for lock in self._locks.values())

    async def _note_listed(self, client: Locker) -> None:
        for lock in await self._listed(client):
            self._locks[lock["id"]] = _Lock(lock["path"], client)

    async def _listed(self, client: Locker) -> list[dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            try:
                answer = await client.locks(**({"cursor": cursor} if cursor else {}))
                body = answer.body()
            except (Finding, NotApplicable, httpx.HTTPError):
                break
            for lock in _locks_in(answer):
                path, lock_id = lock.get("path"), lock.get("id")
                if isinstance(path, str) and path.startswith(f"{self.prefix}/") and isinstance(lock_id, str):
                    found[lock_id] = lock
            following = body.get("next_cursor")
            if not isinstance(following, str) or not following or following == cursor:
                break
            cursor = following
        return list(found.values())


def _locks_in(answer: Answer) -> list[dict[str, Any]]:
    """Return the locks of an answer, be it one under `lock`, a list under `locks`, or a bare one."""
    try:
        body = answer.body()
    except Finding:
        return []
    listed = body.get("locks")
    found = listed if isinstance(listed, list) else [body.get("lock", body)]
    return [lock for lock in found if isinstance(lock, dict)]


async def _is_removed(owner: Locker, lock_id: str, *, force: bool) -> bool:
    try:
        answer = await owner.unlock(lock_id, force=force)
    except (NotApplicable, httpx.HTTPError):
        return False
    return answer.is_success or answer.status == 404
