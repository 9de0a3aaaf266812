"""The ties of repositories to forges, as an administrator makes and changes them."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import InvalidArgument, Reason
from services.locks.forges.patterns import check_forge_repository
from services.locks.forges.records import find_forge
from services.locks.forges.roles import delete_roles
from services.locks.models import Repository
from services.locks.repositories import create_repository, find_repository, update_repository

_COLUMNS = ("forge_id", "forge_repository")


async def tie_columns(
    connection: AsyncConnection, *, forge: str, forge_repository: str, restricted: bool
) -> dict[str, object]:
    """Return the columns of a repository that is tied to one at a forge, or to none if `forge` is empty.

    Raises `NotFound` (FORGE_NOT_FOUND) and `InvalidArgument`.
    """
    if not forge:
        for field, value in (("forge_repository", forge_repository), ("restricted", restricted)):
            if value:
                raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected a forge beside it")
        return {"forge_id": None, "forge_repository": "", "restricted": False}
    found = await find_forge(connection, forge)
    check_forge_repository("forge_repository", forge_repository, found.repositories)
    return {"forge_id": found.id, "forge_repository": forge_repository, "restricted": restricted}


async def create_tied(
    connection: AsyncConnection,
    *,
    name: str,
    columns: Mapping[str, Any],
    forge: str,
    forge_repository: str,
    restricted: bool,
) -> Repository:
    """Add a repository with its tie, if any. Raises the errors of `create_repository` and `tie_columns`."""
    tie: Mapping[str, Any] = await tie_columns(
        connection, forge=forge, forge_repository=forge_repository, restricted=restricted
    )
    return await create_repository(connection, name, **columns, **tie)


async def update_tied(
    connection: AsyncConnection,
    *,
    name: str,
    changes: Mapping[str, object],
    forge: str | None,
    forge_repository: str | None,
    restricted: bool | None,
    alias_days: int,
) -> Repository:
    """Change a repository, and its tie where that is not None; roles by another tie end with it.

    Raises the errors of `update_repository` and `tie_columns`.
    """
    before = await find_repository(connection, name, hold=True)
    tie: dict[str, object] = {}
    if forge is not None:
        tie = await tie_columns(
            connection, forge=forge, forge_repository=forge_repository or "", restricted=bool(restricted)
        )
        if forge and restricted is None:
            tie["restricted"] = before.restricted
    elif forge_repository is not None:
        raise InvalidArgument(Reason.INVALID_FIELD, "forge_repository: expected a forge beside it")
    elif restricted is not None:
        if before.forge_id is None and restricted:
            raise InvalidArgument(Reason.INVALID_FIELD, "restricted: expected a repository that is tied to a forge")
        tie = {"restricted": restricted}
    after = await update_repository(connection, name=name, changes={**changes, **tie}, alias_days=alias_days)
    if any(getattr(before, column) != getattr(after, column) for column in _COLUMNS):
        await delete_roles(connection, after.id)
    return after
