"""Conversions of database rows to protobuf messages, and of request fields to the types of the domain."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.locks.v1 import lock_service_pb2 as locks

from services.common.errors import InvalidArgument, Reason
from services.locks import models
from services.locks.access.grants import AccessGrant, AnyGrant
from services.locks.access.policy import Permission, Role
from services.locks.access.readable import ReadableRepository
from services.locks.ids import parse_id
from services.locks.locking.batch import PathFailure
from services.locks.locking.history import HistoryFilter, Release
from services.locks.locking.pages import LockFilter
from services.locks.locking.table import LockWithOwner
from services.locks.repository_names import own_name

ROLE_NUMBERS = {
    Role.READ: admin.ROLE_READ,
    Role.WRITE: admin.ROLE_WRITE,
    Role.ADMIN: admin.ROLE_ADMIN,
}
FORCED_UNLOCK_NUMBERS = {
    models.FORCED_BY_WRITERS: admin.FORCED_UNLOCK_WRITERS,
    models.FORCED_BY_ADMINS: admin.FORCED_UNLOCK_ADMINS,
}
FORGE_KIND_NUMBERS = {
    "github": admin.FORGE_KIND_GITHUB,
    "gitlab": admin.FORGE_KIND_GITLAB,
    "gitea": admin.FORGE_KIND_GITEA,
    "forgejo": admin.FORGE_KIND_FORGEJO,
}

Released = TypeVar("Released", locks.ReleasedLock, admin.ReleasedLock)

_MAX_ADDRESSES = 1_000
_MAX_CHARACTERS = 64
_MAX_FAILED = 1_000_000
_MAX_SECONDS_EACH = 366 * 24 * 3600
_MAX_WAIT_SECONDS = 60

# The columns of a repository's moments, by the field.
_MOMENTS = {"archived_at": "archived_at", "removed_at": "in_bin_since", "bin_until": "in_bin_until"}

_PERMISSIONS = {
    access.PERMISSION_READ: Permission.READ,
    access.PERMISSION_WRITE: Permission.WRITE,
    access.PERMISSION_WRITE_ANY_REF: Permission.WRITE_ANY_REF,
    access.PERMISSION_ADMIN: Permission.ADMIN,
}


_PERMISSION_NUMBERS = {permission: number for number, permission in _PERMISSIONS.items()}


def timestamp(moment: datetime) -> Timestamp:
    """Return the message of a moment."""
    message = Timestamp()
    message.FromDatetime(moment)
    return message


def moment_of(field: str, message: Timestamp) -> datetime:
    """Return the moment of a field. Raises `InvalidArgument` for a time that a `datetime` cannot be."""
    try:
        return message.ToDatetime(tzinfo=UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected a time before the year 10000") from error


def lock_message(lock: LockWithOwner) -> locks.Lock:
    """Return the message of a standing lock."""
    message = locks.Lock(id=str(lock.id), path=lock.path, owner_id=lock.owner_id, owner_name=lock.owner_name)
    message.locked_at.seconds = int(lock.locked_at.timestamp())
    # Few locks have these, and a page has many locks.
    if lock.note:
        message.note = lock.note
    if lock.space:
        message.space = lock.space
    return message


def lock_filter_of(request: locks.ListLocksRequest | admin.ListRepositoryLocksRequest) -> LockFilter:
    """Return the locks that a request selects. Raises `InvalidArgument` for a time that is none."""
    has = request.HasField
    lock_id = parse_id(request.id) if isinstance(request, locks.ListLocksRequest) and request.HasField("id") else None
    return LockFilter(
        path=request.path if has("path") else None,
        lock_id=lock_id,
        path_prefix=request.path_prefix if has("path_prefix") else None,
        owner_name=request.owner_name if has("owner_name") else None,
        locked_before=moment_of("locked_before", request.locked_before) if has("locked_before") else None,
        ref=request.ref if isinstance(request, locks.ListLocksRequest) else "",
    )


def path_failure_message(failure: PathFailure) -> locks.PathFailure:
    """Return the message of a path that a batch of locks has left as it was."""
    return locks.PathFailure(
        path=failure.path,
        reason=failure.error.reason,
        message=failure.error.message,
        lock=lock_message(failure.lock) if failure.lock is not None else None,
    )


def history_filter_of(request: locks.ListReleasedLocksRequest | admin.ListReleasedLocksRequest) -> HistoryFilter:
    """Return the released locks that a request selects. Raises `InvalidArgument` for a time that is none."""
    has = request.HasField
    return HistoryFilter(
        path=request.path if has("path") else None,
        owner_name=request.owner_name if has("owner_name") else None,
        since=moment_of("since", request.since) if has("since") else None,
        until=moment_of("until", request.until) if has("until") else None,
    )


def released_lock_message(kind: type[Released], released: models.ReleasedLock | Release) -> Released:
    """Return the message of a released lock, of the kind that one of the services has for it."""
    return kind(
        lock=locks.Lock(
            id=str(released.lock_id),
            path=released.path,
            locked_at=timestamp(released.locked_at),
            owner_id=released.owner_id,
            owner_name=released.owner_name,
            note=released.note,
            space=released.space,
        ),
        released_at=timestamp(released.released_at),
        released_by=released.released_by,
        forced=released.forced,
        stolen=released.stolen,
        reason=released.reason,
    )


def user_message(user: models.User, origin: str = "") -> admin.User:
    """Return the message of a user; `origin` is as `access.users.find_origins` returns it."""
    return admin.User(
        id=user.id,
        name=user.name,
        administrator=user.administrator,
        created_at=timestamp(user.created_at),
        requests_per_hour=user.requests_per_hour,
        origin=origin,
    )


def token_message(
    token: models.Token, user_name: str, *, last_used_at: datetime | None = None, issuer: str = ""
) -> admin.Token:
    """Return the message of a token; it has neither the secret nor its hash."""
    return admin.Token(
        id=token.id,
        name=token.name,
        created_at=timestamp(token.created_at),
        expires_at=timestamp(token.expires_at) if token.expires_at is not None else None,
        user_name=user_name,
        last_used_at=timestamp(last_used_at) if last_used_at is not None else None,
        issuer=issuer,
        requests_per_hour=token.requests_per_hour,
    )


def user_token_message(
    token: models.Token, *, last_used_at: datetime | None = None, issuer: str = ""
) -> access.UserToken:
    """Return the message of a token for its user; it has neither the secret nor its hash."""
    return access.UserToken(
        id=token.id,
        name=token.name,
        created_at=timestamp(token.created_at),
        expires_at=timestamp(token.expires_at) if token.expires_at is not None else None,
        last_used_at=timestamp(last_used_at) if last_used_at is not None else None,
        issuer=issuer,
    )


def readable_message(repository: ReadableRepository) -> access.ListUserRepositoriesResponse.UserRepository:
    """Return the message of a repository that a user may read."""
    return access.ListUserRepositoriesResponse.UserRepository(
        id=repository.id,
        name=repository.name,
        public=repository.public,
        archived_at=timestamp(repository.archived_at) if repository.archived_at is not None else None,
        permission=_PERMISSION_NUMBERS[repository.permission],
    )


def repository_message(
    repository: models.Repository | models.RemovedRepository, forge_names: Mapping[int, str]
) -> admin.Repository:
    """Return the message of a repository; one that is removed for good has neither rules for locks nor a forge."""
    rules = repository if isinstance(repository, models.Repository) else None
    moments = {
        field: timestamp(moment)
        for field, column in _MOMENTS.items()
        if (moment := getattr(rules, column, None)) is not None
    }
    return admin.Repository(
        id=repository.id,
        name=own_name(rules) if rules is not None else repository.name,
        public=repository.public,
        forced_unlock=FORCED_UNLOCK_NUMBERS[repository.forced_unlock],
        created_at=timestamp(repository.created_at),
        stale_after_seconds=(rules and rules.stale_after_seconds) or 0,
        history_seconds=(rules and rules.history_seconds) or 0,
        release_on=rules.release_on if rules is not None else (),
        lock_spaces=rules.lock_spaces if rules else (),
        forge=forge_names.get(rules.forge_id, "") if rules and rules.forge_id is not None else "",
        forge_repository=rules.forge_repository if rules else "",
        restricted=rules is not None and rules.restricted,
        **moments,
    )


def forge_message(forge: models.Forge) -> admin.Forge:
    """Return the message of a forge."""
    return admin.Forge(
        id=forge.id,
        name=forge.name,
        kind=FORGE_KIND_NUMBERS[forge.kind],
        api_url=forge.api_url,
        repositories=forge.repositories,
        creates_on_use=forge.creates_on_use,
        created_at=timestamp(forge.created_at),
    )


def group_message(group: models.Group, member_count: int) -> admin.Group:
    """Return the message of a group."""
    return admin.Group(
        id=group.id,
        name=group.name,
        member_count=member_count,
        created_at=timestamp(group.created_at),
        requests_per_hour=group.requests_per_hour,
    )


def grant_message(
    grant: AnyGrant | AccessGrant, *, user_name: str = "", group_name: str = "", repository: str
) -> admin.Grant:
    """Return the message of a grant."""
    return admin.Grant(
        user_name=user_name,
        group_name=group_name,
        repository=repository,
        role=ROLE_NUMBERS[Role(grant.role)],
        ref_patterns=grant.ref_patterns,
        created_at=timestamp(grant.created_at),
        ignores_locks=grant.ignores_locks,
    )


def permission_of(number: int) -> Permission:
    """Return the permission that a request asks for. Raises `InvalidArgument`."""
    permission = _PERMISSIONS.get(access.Permission.ValueType(number))
    if permission is None:
        names = [access.Permission.Name(permission) for permission in _PERMISSIONS]
        raise InvalidArgument(Reason.INVALID_FIELD, f"permission: expected one of {', '.join(names)}")
    return permission


def failed_logins_of(request: access.CountFailedLoginsRequest) -> Mapping[str, timedelta]:
    """Return the debts that a request reports, by address. Raises `InvalidArgument`."""
    if not 0 < request.seconds_each <= _MAX_SECONDS_EACH:
        raise InvalidArgument(Reason.INVALID_FIELD, f"seconds_each: expected more than 0, at most {_MAX_SECONDS_EACH}")
    if not 0 < len(request.failed) <= _MAX_ADDRESSES:
        raise InvalidArgument(Reason.INVALID_FIELD, f"failed: expected 1 to {_MAX_ADDRESSES} addresses")
    for login in request.failed:
        if not 0 < len(login.address) <= _MAX_CHARACTERS or "\0" in login.address:
            raise InvalidArgument(Reason.INVALID_FIELD, f"address: expected 1 to {_MAX_CHARACTERS} characters")
        if not 0 < login.count <= _MAX_FAILED:
            raise InvalidArgument(Reason.INVALID_FIELD, f"count: expected 1 to {_MAX_FAILED}")
    debts = {login.address: timedelta(seconds=login.count * request.seconds_each) for login in request.failed}
    if len(debts) != len(request.failed):
        raise InvalidArgument(Reason.INVALID_FIELD, "failed: expected each address once")
    return debts


def wait_seconds_of(request: access.WatchAccessRequest) -> float:
    """Return the seconds for which a request waits for a change. Raises `InvalidArgument`."""
    if not 0 <= request.wait_seconds <= _MAX_WAIT_SECONDS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"wait_seconds: expected 0 to {_MAX_WAIT_SECONDS}")
    return request.wait_seconds
