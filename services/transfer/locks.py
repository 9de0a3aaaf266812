"""Locks of another server, taken here in the names of their owners; and the list of those here."""

import json
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2 import Lock

from services.cli.admin.pagination import PAGE, pages
from services.cli.admin.records import lock_record
from services.cli.connection import Administration
from services.cli.errors import CommandError
from services.cli.output import cell
from services.common.errors import InvalidArgument, NotFound
from services.transfer.server.locks import TheirLock, parse_list

_MAX_LIST_BYTES = 256 * 1024**2
_MAX_NAMED = 20
_MAX_NOTE = 500
_RELEASED = "released at the other server"


class Mode(StrEnum):
    """The locks to take over: none; those that stand there; or these, and the release of those that stand no more."""

    NONE = "none"
    COPY = "copy"
    MIRROR = "mirror"


@dataclass(frozen=True)
class Owners:
    """The names of users here by those there; an owner without one has the same name here, or is `other`, if given."""

    names: Mapping[str, str]
    other: str | None = None
    skip: bool = False

    async def resolve(self, admin: Administration, theirs: Iterable[str]) -> dict[str, str]:
        """Return the user of each owner; with `skip`, those without one are left out.

        Raises `CommandError` that names the owners without a user, and a user that is none.
        """
        given = {owner: self.names.get(owner, owner) for owner in set(theirs)}
        known = {user: await _is_user(admin, user) for user in {*given.values(), *self.names.values()}}
        if self.other is not None and not await _is_user(admin, self.other):
            raise CommandError(f"--unmapped-owner: there is no user {cell(self.other)}")
        if wrong := sorted(user for user in self.names.values() if not known[user]):
            raise CommandError(f"--map-owner: there is no user {_named(wrong)}")
        found = {owner: user for owner, user in given.items() if known[user]}
        unmapped = sorted(given.keys() - found.keys())
        if self.other is not None:
            found |= dict.fromkeys(unmapped, self.other)
        elif unmapped and not self.skip:
            raise CommandError(
                f"these owners of locks are no users here: {_named(unmapped)}; give --map-owner THEIRS=OURS for each, "
                "--unmapped-owner USER for all of them, or --skip-unmapped"
            )
        return found


def _named(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(cell(name or "(no name)") for name in names[:_MAX_NAMED]) + more


async def _is_user(admin: Administration, name: str) -> bool:
    try:
        await admin.call(admin.stub.GetUserUsage, pb.GetUserUsageRequest(user_name=name))
    except (NotFound, InvalidArgument):
        return False
    return True


@dataclass
class Taken:
    """The outcome: how many locks stand there, were taken, stood here already; and those that could not be taken."""

    there_count: int = 0
    taken_count: int = 0
    kept_count: int = 0
    skipped_count: int = 0
    released_count: int = 0
    conflicts: list[dict[str, str]] = field(default_factory=list)

    def record(self) -> dict[str, Any]:
        """Return the printed fields."""
        return dict(vars(self))


class Taking:
    """The locks of a repository here, in place of those of another server, whose note tells where they come from."""

    def __init__(self, admin: Administration, repository: str, origin: str, mode: Mode) -> None:
        self._admin = admin
        self._repository = repository
        self._note = f"imported from {origin}"[:_MAX_NOTE]
        self._mode = mode
        self.taken = Taken()

    async def run(self, theirs: Sequence[TheirLock], users: Mapping[str, str]) -> None:
        """Take the locks whose owners are among `users`."""
        self.taken.there_count = len(theirs)
        known = {lock.path: lock for lock in theirs if lock.owner in users and not lock.space}
        self.taken.skipped_count = sum(lock.owner not in users for lock in theirs)
        for lock in theirs:
            if lock.space and lock.owner in users:
                self._conflict(lock.path, f"it is locked in the space {lock.space}, of which the list has no ref")
        wanted = defaultdict[str, list[TheirLock]](list)
        standing = {lock.path: lock async for lock in self._standing()}
        if self._mode is Mode.MIRROR:
            everywhere = {lock.path for lock in theirs}
            for path, ours in list(standing.items()):
                moved = path in known and users[known[path].owner] != ours.owner_name
                if ours.note == self._note and (path not in everywhere or moved):
                    await self._release(standing.pop(path))
        for lock in known.values():
            user = users[lock.owner]
            stands = standing.get(lock.path)
            if stands is None:
                wanted[user].append(lock)
            elif stands.owner_name == user:
                self.taken.kept_count += 1
            else:
                self._conflict(lock.path, f"it is locked here by {stands.owner_name}")
        for user, locks in sorted(wanted.items()):
            locks.sort(key=lambda lock: lock.locked_at or datetime.now(UTC))
            for start in range(0, len(locks), PAGE):
                await self._take(user, locks[start : start + PAGE])

    async def _standing(self) -> AsyncIterator[Lock]:
        async for lock in standing_locks(self._admin, self._repository):
            if not lock.space:
                yield lock

    async def _release(self, lock: Lock) -> None:
        request = pb.RemoveLockRequest(repository=self._repository, id=lock.id, reason=_RELEASED)
        try:
            await self._admin.call(self._admin.stub.RemoveLock, request)
        except NotFound:
            # Somebody was faster.
            return
        self.taken.released_count += 1

    async def _take(self, user: str, locks: Sequence[TheirLock]) -> None:
        now = datetime.now(UTC)
        request = pb.LockPathsRequest(
            repository=self._repository,
            user_name=user,
            paths=[lock.path for lock in locks],
            note=self._note,
            locked_at=[_timestamp(min(lock.locked_at or now, now)) for lock in locks],
        )
        answer = await self._admin.call(self._admin.stub.LockPaths, request)
        self.taken.taken_count += len(answer.locks)
        for failure in answer.failures:
            self._conflict(failure.path, failure.message)

    def _conflict(self, path: str, reason: str) -> None:
        self.taken.conflicts.append({"path": path, "reason": reason})


async def standing_locks(admin: Administration, repository: str) -> AsyncIterator[Lock]:
    """Yield all locks that stand in a repository."""
    async for page in pages(
        admin, admin.stub.ListRepositoryLocks, pb.ListRepositoryLocksRequest(repository=repository)
    ):
        for lock in page.locks:
            yield lock


def read_list(path: Path) -> list[TheirLock]:
    """Return the locks of a file, as `git lfs locks --json` or an export has written it. Raises `CommandError`."""
    try:
        with path.open("rb") as file:
            text = file.read(_MAX_LIST_BYTES + 1)
    except OSError as error:
        raise CommandError(f"{path}: {(error.strerror or str(error)).lower()}") from error
    if len(text) > _MAX_LIST_BYTES:
        raise CommandError(f"{path}: expected at most {_MAX_LIST_BYTES} bytes")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise CommandError(f"{path}: expected JSON") from error
    return parse_list(document, str(path))


def write_list(path: Path, locks: Sequence[Lock]) -> None:
    """Write locks into a file as `git lfs locks --json` prints them, with notes and spaces if there are any."""
    records = []
    for lock in locks:
        record = lock_record(lock)
        records.append({**record, "owner": {"name": record["owner"]}})
    part = path.with_name(f".{path.name}.part")
    part.write_text(json.dumps(records, indent=2, ensure_ascii=False) + "\n")
    part.replace(path)


def _timestamp(moment: datetime) -> Timestamp:
    found = Timestamp()
    found.FromDatetime(moment)
    return found
