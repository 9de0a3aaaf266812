"""AdminService: repositories."""

from functools import partial

from sqlalchemy import func
from sqlmodel import col
from towpath.access.v1 import admin_service_pb2 as pb

from services.common.errors import InvalidArgument, Reason
from services.locks import models
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.messages import FORCED_UNLOCK_NUMBERS, repository_message
from services.locks.forges.records import forge_names
from services.locks.forges.ties import create_tied, update_tied
from services.locks.models import RemovedRepository, Repository, User
from services.locks.removals import purge_repository, remove_repository, restore_repository
from services.locks.repositories import list_bin, list_repositories
from services.locks.validation import (
    check_lock_spaces,
    check_new_repository_name,
    check_ref_patterns,
    check_repository_name,
)

# An answer that was lost is repeated with its idempotency key, which the history keeps.
_MIN_STALE_SECONDS, _MIN_HISTORY_SECONDS = 1, 3600
_MAX_SECONDS = 100 * 365 * 24 * 3600

_FORCED_UNLOCK = {number: word for word, number in FORCED_UNLOCK_NUMBERS.items()}


class RepositoryHandlers(Handlers):
    """Adds, lists, changes, removes and restores repositories."""

    @administrator_only
    async def CreateRepository(
        self, request: pb.CreateRepositoryRequest, _administrator: User
    ) -> pb.CreateRepositoryResponse:
        """Add a repository."""
        check_new_repository_name("name", request.name)
        forced_unlock = _forced_unlock(request.forced_unlock) or models.FORCED_BY_WRITERS
        creating = partial(
            create_tied,
            name=request.name,
            columns={
                "public": request.public,
                "forced_unlock": forced_unlock,
                "stale_after_seconds": _seconds("stale_after_seconds", request.stale_after_seconds, _MIN_STALE_SECONDS),
                "history_seconds": _seconds("history_seconds", request.history_seconds, _MIN_HISTORY_SECONDS),
                "lock_spaces": check_lock_spaces("lock_spaces", request.lock_spaces),
            },
            forge=request.forge,
            forge_repository=request.forge_repository,
            restricted=request.restricted,
        )
        return pb.CreateRepositoryResponse(repository=await self._message(await self.database.run(creating)))

    @administrator_only
    async def ListRepositories(
        self, request: pb.ListRepositoriesRequest, _administrator: User
    ) -> pb.ListRepositoriesResponse:
        """Return all repositories, ordered by name, or those in the bin."""
        listing = list_bin if request.removed else partial(list_repositories, with_bin=False)
        repositories, names = await self.database.run(listing), await self.database.run(forge_names)
        messages = (repository_message(repository, names) for repository in repositories)
        return pb.ListRepositoriesResponse(repositories=messages)

    @administrator_only
    async def UpdateRepository(
        self, request: pb.UpdateRepositoryRequest, _administrator: User
    ) -> pb.UpdateRepositoryResponse:
        """Change the fields of a repository that the request sets."""
        check_repository_name("name", request.name)
        has = request.HasField
        updating = partial(
            update_tied,
            name=request.name,
            changes=_changes(request),
            forge=request.forge if has("forge") else None,
            forge_repository=request.forge_repository if has("forge_repository") else None,
            restricted=request.restricted if has("restricted") else None,
            alias_days=self.settings.alias_days,
        )
        return pb.UpdateRepositoryResponse(repository=await self._message(await self.database.run(updating)))

    @administrator_only
    async def DeleteRepository(
        self, request: pb.DeleteRepositoryRequest, administrator: User
    ) -> pb.DeleteRepositoryResponse:
        """Move a repository with its grants, locks and objects to the bin."""
        check_repository_name("name", request.name)
        removed = await remove_repository(
            self.database,
            self.storage,
            request.name,
            force=request.force,
            administrator=administrator,
            bin_days=self.settings.repository_bin_days,
        )
        return pb.DeleteRepositoryResponse(repository=await self._message(removed))

    @administrator_only
    async def RestoreRepository(
        self, request: pb.RestoreRepositoryRequest, _administrator: User
    ) -> pb.RestoreRepositoryResponse:
        """Take a repository out of the bin."""
        check_repository_name("name", request.name)
        if request.new_name:
            check_new_repository_name("new_name", request.new_name)
        restoring = partial(restore_repository, name=request.name, repository_id=request.id, new_name=request.new_name)
        return pb.RestoreRepositoryResponse(repository=await self._message(await self.database.run(restoring)))

    @administrator_only
    async def PurgeRepository(
        self, request: pb.PurgeRepositoryRequest, administrator: User
    ) -> pb.PurgeRepositoryResponse:
        """Remove a repository that is in the bin for good."""
        check_repository_name("name", request.name)
        purged = await purge_repository(
            self.database, self.storage, request.name, repository_id=request.id, administrator=administrator
        )
        return pb.PurgeRepositoryResponse(repository=await self._message(purged))

    async def _message(self, repository: Repository | RemovedRepository) -> pb.Repository:
        return repository_message(repository, await self.database.run(forge_names))


def _changes(request: pb.UpdateRepositoryRequest) -> dict[str, object]:
    """Return the columns that a request sets. Raises `InvalidArgument`."""
    changes: dict[str, object] = {}
    if request.HasField("new_name"):
        # An unchanged name may be older than these rules, and stays valid beside other changes.
        if request.new_name != request.name:
            check_new_repository_name("new_name", request.new_name)
        changes["name"] = request.new_name
    if request.HasField("public"):
        changes["public"] = request.public
    if forced_unlock := _forced_unlock(request.forced_unlock):
        changes["forced_unlock"] = forced_unlock
    if request.HasField("stale_after_seconds"):
        changes["stale_after_seconds"] = _seconds(
            "stale_after_seconds", request.stale_after_seconds, _MIN_STALE_SECONDS
        )
    if request.HasField("history_seconds"):
        changes["history_seconds"] = _seconds("history_seconds", request.history_seconds, _MIN_HISTORY_SECONDS)
    if request.HasField("archived"):
        # A repository that is archived again keeps the time when it was.
        archived_at = func.coalesce(col(Repository.archived_at), func.now())
        changes["archived_at"] = archived_at if request.archived else None
    if request.HasField("release_on"):
        changes["release_on"] = check_ref_patterns("release_on", request.release_on.patterns)
    if request.HasField("lock_spaces"):
        changes["lock_spaces"] = check_lock_spaces("lock_spaces", request.lock_spaces.rules)
    return changes


def _seconds(field: str, seconds: int, least: int) -> int | None:
    """Return a number of seconds; None for 0, which means never or for ever. Raises `InvalidArgument`."""
    if seconds == 0:
        return None
    if not least <= seconds <= _MAX_SECONDS:
        raise InvalidArgument(
            Reason.INVALID_FIELD, f"{field}: expected {least} to {_MAX_SECONDS} seconds, or 0 for no limit"
        )
    return seconds


def _forced_unlock(number: int) -> str | None:
    """Return the rule for forced unlocks; None if the request sets none. Raises `InvalidArgument`."""
    if number == pb.FORCED_UNLOCK_UNSPECIFIED:
        return None
    word = _FORCED_UNLOCK.get(pb.ForcedUnlock.ValueType(number))
    if word is None:
        raise InvalidArgument(
            Reason.INVALID_FIELD, "forced_unlock: expected FORCED_UNLOCK_WRITERS or FORCED_UNLOCK_ADMINS"
        )
    return word
