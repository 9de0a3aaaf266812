"""Hooks: the URLs to which events are delivered, with the secrets that sign the deliveries."""

import asyncio
import base64
import secrets
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from sqlalchemy import delete, func, or_, select, update
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import FailedPrecondition, InvalidArgument, NotFound, Reason
from services.database.transactions import Database
from services.locks.models import Hook, HookDelivery, Repository
from services.locks.repositories import find_repository
from services.locks.webhooks.addresses import ReceiverError, parse_receiver, resolve
from services.locks.webhooks.event_types import check_event_patterns
from services.locks.webhooks.formats import Format

DISABLED = "the hook is disabled"
"""The problem of a delivery that is not attempted any more because its hook is disabled."""

_HOOK = Hook.__table__.c
_RESOLVE_SECONDS = 5.0
_SECRET_BYTES = 32


class NewHook(NamedTuple):
    """A hook that is to be added, of one repository, or of all where `repository` is empty."""

    repository: str
    url: str
    events: Sequence[str]
    form: Format
    allows_private: bool


class HookWithRepository(NamedTuple):
    """A hook, and the name of its repository; empty for all."""

    hook: Hook
    repository: str


def hook_not_found(hook_id: int) -> NotFound:
    """Return the error for an id that no hook has."""
    return NotFound(Reason.HOOK_NOT_FOUND, f"there is no hook {hook_id}")


async def add_hook(database: Database, new: NewHook) -> HookWithRepository:
    """Add a hook with a new secret.

    Raises `InvalidArgument` for unknown events and for a URL to which nothing would be delivered, and `NotFound`
    (REPOSITORY_NOT_FOUND).
    """
    events = check_event_patterns("events", new.events)
    try:
        receiver = parse_receiver(new.url, allows_private=new.allows_private)
        async with asyncio.timeout(_RESOLVE_SECONDS):
            await resolve(receiver, allows_private=new.allows_private)
    except ReceiverError as error:
        raise InvalidArgument(Reason.INVALID_FIELD, f"url: {error}") from error
    except TimeoutError as error:
        message = f"url: the host {receiver.host} cannot be resolved within {_RESOLVE_SECONDS:g} s"
        raise InvalidArgument(Reason.INVALID_FIELD, message) from error
    secret = f"whsec_{base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()}"
    return await database.run(partial(_insert, new=new, events=events, secret=secret))


async def _insert(connection: AsyncConnection, new: NewHook, *, events: list[str], secret: str) -> HookWithRepository:
    # A repeated transaction finds the hook that its first attempt has added.
    found = (await connection.execute(select(*_HOOK).where(col(Hook.secret) == secret))).mappings().one_or_none()
    if found is not None:
        return HookWithRepository(Hook(**found), new.repository)
    repository = await find_repository(connection, new.repository) if new.repository else None
    statement = (
        insert(Hook)
        .values(
            repository_id=repository.id if repository else None,
            url=new.url,
            events=events,
            format=new.form.value,
            secret=secret,
            allows_private=new.allows_private,
        )
        .returning(*_HOOK)
    )
    try:
        row = (await connection.execute(statement)).mappings().one()
    except IntegrityError as error:
        raise NotFound(Reason.REPOSITORY_NOT_FOUND, f"the repository {new.repository} has just been removed") from error
    return HookWithRepository(Hook(**row), new.repository)


async def list_hooks(connection: AsyncConnection, repository_id: int | None) -> Sequence[HookWithRepository]:
    """Return all hooks by id, or those that hear of one repository."""
    statement = (
        select(*_HOOK, func.coalesce(col(Repository.name), "").label("name"))
        .outerjoin(Repository, col(Repository.id) == col(Hook.repository_id))
        .order_by(col(Hook.id))
    )
    if repository_id is not None:
        statement = statement.where(or_(col(Hook.repository_id) == repository_id, col(Hook.repository_id).is_(None)))
    rows = (await connection.execute(statement)).mappings()
    names = [column.name for column in _HOOK]
    return [HookWithRepository(Hook(**{name: row[name] for name in names}), row["name"]) for row in rows]


async def remove_hook(connection: AsyncConnection, hook_id: int) -> None:
    """Remove a hook with its deliveries. Raises `NotFound` (HOOK_NOT_FOUND)."""
    removed = await connection.scalar(delete(Hook).where(col(Hook.id) == hook_id).returning(col(Hook.id)))
    if removed is None:
        raise hook_not_found(hook_id)


async def check_exists(connection: AsyncConnection, hook_id: int) -> None:
    """Raise `NotFound` (HOOK_NOT_FOUND) unless there is a hook of this id."""
    if await connection.scalar(select(col(Hook.id)).where(col(Hook.id) == hook_id)) is None:
        raise hook_not_found(hook_id)


async def check_enabled(connection: AsyncConnection, hook_id: int) -> None:
    """Raise `NotFound` (HOOK_NOT_FOUND) or `FailedPrecondition` (HOOK_DISABLED) unless a hook is enabled."""
    statement = select(col(Hook.disabled_at), col(Hook.disabled_because)).where(col(Hook.id) == hook_id)
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        raise hook_not_found(hook_id)
    if row.disabled_at is not None:
        raise FailedPrecondition(Reason.HOOK_DISABLED, f"the hook {hook_id} is disabled: {row.disabled_because}")


async def disable_hook(connection: AsyncConnection, hook_id: int, because: str) -> None:
    """Disable a hook, and end its pending deliveries. A hook that is disabled already keeps its reason."""
    await connection.execute(
        update(Hook)
        .where(col(Hook.id) == hook_id, col(Hook.disabled_at).is_(None))
        .values(disabled_at=func.now(), disabled_because=because)
    )
    await connection.execute(
        update(HookDelivery)
        .where(col(HookDelivery.hook_id) == hook_id, col(HookDelivery.next_attempt_at).is_not(None))
        .values(next_attempt_at=None, problem=DISABLED)
    )
