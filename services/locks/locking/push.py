"""Pushes of a git server: the locks that stand in their way, and the release of the pusher's own locks."""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import BigInteger, ColumnElement, LargeBinary, and_, any_, func, literal, select, text
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import InvalidArgument, PermissionDenied, Reason
from services.database.transactions import Database
from services.locks.access.grants import ACCESS_GRANTS, find_access, granted
from services.locks.access.policy import Role
from services.locks.locking.history import release_locks
from services.locks.locking.paths import path_hash
from services.locks.locking.pushers import Pusher, find_pusher
from services.locks.locking.spaces import find_rules, find_space, spaces_of
from services.locks.locking.table import STANDING, LockWithOwner, select_locks_for_update
from services.locks.models import Lock, Repository, User
from services.locks.ref_patterns import matching
from services.locks.repositories import repository_not_found
from services.locks.validation import check_note, check_repository_name

MAX_PATHS = 10_000
MAX_REFS = 1_000
MAX_PATH_BYTES = 1024**2
MAX_BLOCKING = 1_000


@dataclass(frozen=True, slots=True)
class Push:
    """The update of a ref of a repository by a user, and paths that it changes."""

    repository: str
    pusher: Pusher
    ref: str
    paths: Sequence[str]

    def check(self) -> None:
        """Raise `InvalidArgument` (INVALID_FIELD) for the name of no repository, and for too many or too long paths."""
        check_repository_name("repository", self.repository)
        _check_size("paths", self.paths, MAX_PATHS)


@dataclass(frozen=True, slots=True)
class PushCheck:
    """The first locks in the way of a push by their paths, the number of all of them, and whether the pusher exists."""

    blocking: Sequence[LockWithOwner]
    count: int
    pusher_is_known: bool


async def check_push(connection: AsyncConnection, push: Push, *, caller: User) -> PushCheck:
    """Return the locks of other users on the paths of a push; none for a pusher whose grant ignores locks on the ref.

    Raises `InvalidArgument` (INVALID_FIELD), `NotFound` (REPOSITORY_NOT_FOUND), and `PermissionDenied` (ACCESS_DENIED)
    unless the caller may speak for the git server of the repository.
    """
    push.check()
    repository_id = await _authorize(connection, push.repository, caller)
    pusher = await find_pusher(connection, push.pusher, repository_id=repository_id)
    if pusher is not None and await _ignores_locks(connection, repository_id, pusher.id, push.ref):
        return PushCheck([], 0, pusher_is_known=True)
    statement = (
        select(text(STANDING), func.count().over())
        .join_from(Lock, User, col(Lock.owner_id) == col(User.id))
        .where(await _on_paths(connection, repository_id, push))
        .order_by(col(Lock.path))
        .limit(MAX_BLOCKING)
    )
    if pusher is not None:
        statement = statement.where(col(Lock.owner_id) != pusher.id)
    rows = (await connection.execute(statement)).all()
    blocking = [LockWithOwner(*row[:-1]) for row in rows]
    return PushCheck(blocking, rows[0][-1] if rows else 0, pusher_is_known=pusher is not None)


async def find_lock_spaces(
    database: Database, *, repository: str, refs: Sequence[str], caller: User
) -> tuple[Sequence[str], bool]:
    """Return the space of each ref, and whether the repository has rules for spaces. Raises those of `check_push`."""

    async def read(connection: AsyncConnection) -> Sequence[str]:
        return await find_rules(connection, await _authorize(connection, repository, caller))

    check_repository_name("repository", repository)
    _check_size("refs", refs, MAX_REFS)
    rules = await database.run(read)
    return await spaces_of(rules, refs), bool(rules)


async def release_pushed(
    connection: AsyncConnection, push: Push, *, reason: str, caller: User
) -> Sequence[LockWithOwner] | None:
    """Release the pusher's own locks on the paths of a push, and return them as they were, ordered by path.

    Return None if pushes to the ref release no locks in this repository, or if it is archived. Raises the errors of
    `check_push`.
    """
    push.check()
    check_note("reason", reason)
    repository_id = await _authorize(connection, push.repository, caller)
    release_on = select(col(Repository.release_on)).where(
        col(Repository.id) == repository_id, col(Repository.archived_at).is_(None)
    )
    patterns: Sequence[str] | None = await connection.scalar(release_on)
    if matching(patterns or [], push.ref) is None:
        return None
    pusher = await find_pusher(connection, push.pusher, repository_id=repository_id)
    if pusher is None:
        return []
    own = and_(await _on_paths(connection, repository_id, push), col(Lock.owner_id) == pusher.id)
    removals = await select_locks_for_update(connection, own, repository_id=repository_id, user_id=pusher.id)
    locks = [removal.lock for removal in removals]
    if locks:
        # The locked rows alone: a lock that the pusher has created meanwhile is not the one of the push.
        gone = col(Lock.id) == any_(literal([lock.id for lock in locks], ARRAY(BigInteger)))
        await release_locks(connection, gone, released_by_id=pusher.id, released_by=pusher.name, reason=reason)
    return locks


def _check_size(field: str, values: Sequence[str], most: int) -> None:
    if len(values) > most:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected at most {most}, got {len(values)}")
    if sum(len(value.encode()) for value in values) > MAX_PATH_BYTES:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected at most {MAX_PATH_BYTES} bytes in all")


async def _on_paths(connection: AsyncConnection, repository_id: int, push: Push) -> ColumnElement[bool]:
    """Return the condition for the locks on the paths of a push, in the space of its ref."""
    space = await find_space(connection, repository_id, push.ref)
    hashes = literal([path_hash(path, space) for path in push.paths], ARRAY(LargeBinary))
    return and_(col(Lock.repository_id) == repository_id, col(Lock.path_hash) == any_(hashes))


async def _authorize(connection: AsyncConnection, repository: str, caller: User) -> int:
    """Return the id of the repository, if the caller may speak for its git server."""
    found = await find_access(connection, repository=repository, user_id=caller.id)
    may_read = found is not None and (caller.administrator or found.access.public or found.records)
    if found is None or not may_read:
        raise repository_not_found(repository)
    is_admin = any(grant.role == Role.ADMIN.value and not grant.ref_patterns for grant in found.records)
    if not (caller.administrator or is_admin):
        raise PermissionDenied(
            Reason.ACCESS_DENIED,
            f"{caller.name} is no administrator, and has not the role admin in {repository} for every ref",
        )
    return found.id


async def _ignores_locks(connection: AsyncConnection, repository_id: int, user_id: int, ref: str) -> bool:
    grant = ACCESS_GRANTS.c
    statement = select(grant.ref_patterns).where(granted(repository_id, user_id=user_id), grant.ignores_locks)
    limits: Sequence[Sequence[str]] = (await connection.scalars(statement)).all()
    return any(not patterns or matching(patterns, ref) is not None for patterns in limits)
