"""Batches of locks: the locks of many paths are created or removed in one transaction.

Each batch takes its row locks in the order of the paths, so that overlapping batches never wait for each other in a
circle. Batches of one repository are created one by one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from types import MappingProxyType

from sqlalchemy import ARRAY, BigInteger, LargeBinary, any_, literal, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason, ServiceError
from services.database.transactions import Database
from services.locks.locking.history import find_releases, release_locks
from services.locks.locking.paths import check_path, path_hash
from services.locks.locking.release import check_removal
from services.locks.locking.spaces import find_space
from services.locks.locking.table import (
    STANDING,
    LockLimits,
    LockWithOwner,
    select_locks_for_update,
    too_many_locks,
    unknown_party,
)
from services.locks.models import Lock, ReleasedLock, User
from services.locks.ref_patterns import kept_ref

MAX_PATHS = 1000

# The lock that single creations share; alone, because each batch may add more than the margin near a limit.
_ALONE = text("SELECT locks.room_for_lock(:repository_id, :user_id, :per_repository, :per_user, true)")
_CREATE = text(f"""
    WITH asked AS MATERIALIZED (
        SELECT * FROM unnest(CAST(:paths AS text[]), CAST(:hashes AS bytea[]), CAST(:moments AS timestamptz[]))
            AS asked (path, path_hash, locked_at)
    ), made AS (
        INSERT INTO locks.locks (repository_id, path, path_hash, owner_id, locked_at, idempotency_key, note, space, ref)
        SELECT :repository_id, path, path_hash, :user_id, date_trunc('second', least(locked_at, now())), '', :note,
            :space, :ref
        FROM asked ORDER BY path COLLATE "C"
        ON CONFLICT (repository_id, path_hash) DO NOTHING
        RETURNING id, path, path_hash, locked_at, owner_id, note, space
    )
    SELECT made.id, made.path, made.locked_at, made.owner_id, users.name, made.note, made.space, true
    FROM made JOIN locks.users ON users.id = made.owner_id
    UNION ALL
    SELECT {STANDING}, false
    FROM asked JOIN locks.locks USING (path_hash) JOIN locks.users ON users.id = locks.owner_id
    WHERE locks.repository_id = :repository_id
        -- A lock that stood when the statement began may have made way while the insert waited for it.
        AND NOT EXISTS (SELECT FROM made WHERE made.path_hash = asked.path_hash)
""")  # noqa: S608 - our own names
_COUNTS = text("""
    SELECT
        (SELECT coalesce(sum(count), 0) FROM locks.locks_per_repository WHERE repository_id = :repository_id),
        (SELECT coalesce(sum(count), 0) FROM locks.locks_per_user
            WHERE repository_id = :repository_id AND user_id = :user_id)
""")


@dataclass(frozen=True, slots=True)
class PathFailure:
    """The error of one path, and the lock that stands on it, if one does."""

    path: str
    error: ServiceError
    lock: LockWithOwner | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The user's locks on the paths, or the removed locks, and the failures, both in the order of the paths.

    `changed` are the locks that this call itself created or removed, and no earlier one.
    """

    locks: Sequence[LockWithOwner]
    failures: Sequence[PathFailure]
    changed: Sequence[LockWithOwner] = ()


class _Refused(Exception):
    """A path of an all-or-nothing batch failed; the transaction is rolled back."""

    def __init__(self, failures: Sequence[PathFailure]) -> None:
        self.failures = failures


async def create_locks(
    database: Database,
    *,
    repository_id: int,
    user_id: int,
    paths: Sequence[str],
    max_path_bytes: int,
    limits: LockLimits,
    all_or_nothing: bool,
    note: str = "",
    ref: str = "",
    locked_at: Mapping[str, datetime] = MappingProxyType({}),
) -> BatchOutcome:
    """Lock paths for a user in the space of a ref, as of the times `locked_at`, or now.

    A path that the user has locked there already counts as locked by this call, and keeps its note. With
    `all_or_nothing`, a failure leaves all paths as they are. Raises `InvalidArgument` (INVALID_FIELD), `NotFound`
    (USER_NOT_FOUND, REPOSITORY_NOT_FOUND), and `ResourceExhausted` (TOO_MANY_LOCKS), after which none is locked.
    """
    unique = _unique(paths)
    invalid = _invalid(unique, max_path_bytes)
    if invalid and all_or_nothing:
        return BatchOutcome([], invalid)
    valid = sorted(unique.keys() - {failure.path for failure in invalid})
    create = partial(
        _create,
        repository_id=repository_id,
        user_id=user_id,
        paths=valid,
        limits=limits,
        all_or_nothing=all_or_nothing,
        note=note,
        ref=ref,
        locked_at=locked_at,
    )
    try:
        standing, created = await database.run(create) if valid else ([], [])
    except IntegrityError as error:
        raise unknown_party(error) from error
    except _Refused as refused:
        return BatchOutcome([], _in_order(unique, refused.failures))
    failures = [*invalid, *_of_others(standing, user_id)]
    own = [lock for lock in standing if lock.owner_id == user_id]
    return BatchOutcome(sorted(own, key=lambda lock: unique[lock.path]), _in_order(unique, failures), created)


async def _create(
    connection: AsyncConnection,
    *,
    repository_id: int,
    user_id: int,
    paths: Sequence[str],
    limits: LockLimits,
    all_or_nothing: bool,
    note: str,
    ref: str,
    locked_at: Mapping[str, datetime],
) -> tuple[Sequence[LockWithOwner], Sequence[LockWithOwner]]:
    """Create the locks of those paths that are free.

    Return the lock that now stands on each path, and those of them that this call created.
    """
    parties = {"repository_id": repository_id, "user_id": user_id}
    await connection.execute(_ALONE, {**parties, "per_repository": 0, "per_user": 0})
    space = await find_space(connection, repository_id, ref)
    hashes, moments = [path_hash(path, space) for path in paths], [locked_at.get(path) for path in paths]
    asked = {"paths": list(paths), "hashes": hashes, "moments": moments, "note": note}
    rows = (await connection.execute(_CREATE, {**parties, **asked, "space": space, "ref": kept_ref(ref)})).all()
    standing = [LockWithOwner(*lock) for *lock, _ in rows]
    created = [LockWithOwner(*lock) for *lock, is_new in rows if is_new]
    here, own = (await connection.execute(_COUNTS, parties)).one()
    # Where a limit was lowered, what stands already is no reason to refuse.
    if created and (here > limits.per_repository or own > limits.per_user):
        raise too_many_locks("repository" if here > limits.per_repository else "user", limits)
    if all_or_nothing and (failures := _of_others(standing, user_id)):
        raise _Refused(failures)
    return standing, created


async def remove_locks(
    database: Database,
    *,
    repository_id: int,
    user_id: int,
    token_id: int = 0,
    paths: Sequence[str],
    force: bool,
    idempotency_key: str,
    all_or_nothing: bool,
    reason: str = "",
    ref: str = "",
    administrator: bool = False,
) -> BatchOutcome:
    """Remove the locks of paths in the space of a ref, and return them as they were.

    `force` and `administrator` are those of `remove_lock`. A repeated call with the same user and idempotency key
    returns the same locks again. With `all_or_nothing`, a failure leaves all locks standing. Raises `InvalidArgument`
    (INVALID_FIELD) and `NotFound` (USER_NOT_FOUND).
    """
    unique = _unique(paths)
    remove = partial(
        _remove,
        repository_id=repository_id,
        user_id=user_id,
        token_id=token_id,
        paths=sorted(unique),
        force=force,
        idempotency_key=idempotency_key,
        all_or_nothing=all_or_nothing,
        reason=reason,
        ref=ref,
        administrator=administrator,
    )
    try:
        removed, earlier, failures = await database.run(remove)
    except _Refused as refused:
        return BatchOutcome([], _in_order(unique, refused.failures))
    locks = sorted([*removed, *earlier], key=lambda lock: unique[lock.path])
    return BatchOutcome(locks, _in_order(unique, failures), removed)


async def _remove(
    connection: AsyncConnection,
    *,
    repository_id: int,
    user_id: int,
    token_id: int,
    paths: Sequence[str],
    force: bool,
    idempotency_key: str,
    all_or_nothing: bool,
    reason: str,
    ref: str,
    administrator: bool,
) -> tuple[Sequence[LockWithOwner], Sequence[LockWithOwner], Sequence[PathFailure]]:
    """Return the removed locks, those that an earlier call with this key removed, and the failures."""
    user_name = (await connection.execute(select(col(User.name)).where(col(User.id) == user_id))).scalar()
    if user_name is None:
        raise NotFound(Reason.USER_NOT_FOUND, "user_id: there is no such user")
    space = await find_space(connection, repository_id, ref)
    hashes = any_(literal([path_hash(path, space) for path in paths], ARRAY(LargeBinary)))
    removals = await select_locks_for_update(
        connection, col(Lock.path_hash) == hashes, repository_id=repository_id, user_id=user_id, token_id=token_id
    )
    released = await find_releases(
        connection,
        col(ReleasedLock.path_hash) == hashes,
        repository_id=repository_id,
        released_by_id=user_id,
        idempotency_key=idempotency_key,
    )
    standing = {removal.lock.path: removal for removal in removals}
    earlier = {lock.path: lock for lock in released if lock.path not in standing}
    failures = []
    for path in paths:
        if path in standing:
            try:
                if not administrator:
                    check_removal(standing[path], user_id=user_id, force=force)
            except ServiceError as error:
                failures.append(PathFailure(path, error, standing.pop(path).lock))
        elif path not in earlier:
            failures.append(PathFailure(path, NotFound(Reason.LOCK_NOT_FOUND, "no lock stands on this path")))
    if failures and all_or_nothing:
        raise _Refused(failures)
    removed = [removal.lock for removal in standing.values()]
    if removed:
        await release_locks(
            connection,
            col(Lock.id) == any_(literal([lock.id for lock in removed], ARRAY(BigInteger))),
            released_by_id=user_id,
            released_by=user_name,
            idempotency_key=idempotency_key,
            reason=reason,
        )
    return removed, list(earlier.values()), failures


def _unique(paths: Sequence[str]) -> Mapping[str, int]:
    """Return the position of each path. Raises `InvalidArgument` (INVALID_FIELD) for none, or for too many."""
    if not 0 < len(paths) <= MAX_PATHS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"paths: expected 1 to {MAX_PATHS} paths, got {len(paths)}")
    return {path: position for position, path in reversed(list(enumerate(paths)))}


def _invalid(paths: Iterable[str], max_path_bytes: int) -> list[PathFailure]:
    failures = []
    for path in paths:
        try:
            check_path(path, max_bytes=max_path_bytes)
        except InvalidArgument as error:
            failures.append(PathFailure(path, error))
    return failures


def _of_others(standing: Sequence[LockWithOwner], user_id: int) -> list[PathFailure]:
    return [
        PathFailure(lock.path, AlreadyExists(Reason.PATH_LOCKED, f"the path is locked by {lock.owner_name}"), lock)
        for lock in standing
        if lock.owner_id != user_id
    ]


def _in_order(positions: Mapping[str, int], failures: Sequence[PathFailure]) -> Sequence[PathFailure]:
    return sorted(failures, key=lambda failure: positions[failure.path])
