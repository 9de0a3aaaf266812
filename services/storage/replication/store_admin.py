"""Administration of stores. Each function raises what StoreService documents for its call."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from sqlalchemy.ext.asyncio import AsyncConnection

from services.common.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Reason, ServiceError
from services.storage.backends.base import Backend
from services.storage.backends.opening import folder_of, open_backend
from services.storage.context import StorageContext
from services.storage.index import partial_uploads, store_table
from services.storage.index.models import StoreRecord
from services.storage.index.store_table import ANYWHERE, StoreHoldings
from services.storage.replication.copier import PARALLEL_DEFAULT

_NAME = re.compile(r"[a-z0-9-]{1,64}")
_PARALLEL_MAX = 64
_TRIAL_SECONDS = 20.0
_LAST_UPLOADS_SECONDS = 10.0
_RETRY_SECONDS = 0.5
_WINDOW = 20_000
_COUNTED_AT_ONCE = 100_000


async def create_store(
    context: StorageContext, name: str, url: str, *, first_url: str, folders: Sequence[Path]
) -> None:
    """Add a store, if it can be read and written, and is empty. `first_url` is the URL of the first store.

    A store on a disk must lie in a folder below one of `folders`, even after symbolic links are resolved.
    """
    if not _NAME.fullmatch(name):
        raise InvalidArgument(Reason.INVALID_FIELD, f"name: expected 1 to 64 of a-z, 0-9 and -, got {name[:80]!a}")

    async def known(connection: AsyncConnection) -> bool:
        stores = [listed.record for listed in await store_table.list_stores(connection)]
        if any(store.name == name and store.url == url for store in stores):
            return True
        if any(store.name == name for store in stores):
            raise AlreadyExists(Reason.STORE_EXISTS, f"a store {name} exists already")
        if any((store.url or first_url) == url for store in stores):
            raise AlreadyExists(Reason.STORE_EXISTS, "a store with this URL exists already")
        return False

    async def add(connection: AsyncConnection) -> None:
        await store_table.lock_list(connection)
        if not await known(connection):
            await store_table.add(connection, name, url)

    if not await context.database.run(known):
        await asyncio.to_thread(_check_folder, url, folders)
        await _try_out(await _opened(url))
        await context.database.run(add)
    await context.stores.refresh()


def _check_folder(url: str, folders: Sequence[Path]) -> None:
    if url.partition(":")[0] != "file":
        return
    try:
        wanted = folder_of(url).resolve()
    except ValueError as error:
        raise _invalid(error) from error
    if not any(wanted.is_relative_to(folder.resolve()) for folder in folders):
        allowed = " or ".join(map(str, folders)) or "one of TOWPATH_STORAGE_FOLDERS, which names none"
        raise InvalidArgument(Reason.INVALID_FIELD, f"url: expected a folder below {allowed}")


async def _opened(url: str) -> Backend:
    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            return await open_backend(url)
    except ValueError as error:
        raise _invalid(error) from error
    except OSError as error:
        raise _unusable(str(error)) from error


def _invalid(error: ValueError) -> InvalidArgument:
    return InvalidArgument(Reason.INVALID_FIELD, str(error).replace("storage_url", "url"))


async def _try_out(backend: Backend) -> None:
    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            await backend.check()
            found = await anext(backend.list_blobs(), None)
    except (ServiceError, OSError) as error:
        raise _unusable(str(error) or "it does not answer") from error
    if found is not None:
        raise _unusable(f"expected one without objects, found {found[0]}")


def _unusable(why: str) -> FailedPrecondition:
    return FailedPrecondition(Reason.STORE_UNUSABLE, f"the store cannot be used: {why}")


async def holdings_of(context: StorageContext) -> Mapping[int, StoreHoldings]:
    """Return the holdings of each store, and under `ANYWHERE` those of at least one store; reads the whole index.

    The holdings of a store are the held objects of which it has an undamaged blob.
    """
    total = {ANYWHERE: StoreHoldings()}
    after = None
    while after != "":
        found, after = await context.database.run(
            partial(store_table.holdings, after=after or "", limit=_COUNTED_AT_ONCE)
        )
        for store_id, holdings in found.items():
            total[store_id] = total.get(store_id, StoreHoldings()) + holdings
    return total


async def start_copy(
    context: StorageContext, from_name: str, to_name: str, *, parallel: int, bytes_per_second: int
) -> None:
    """Make a store a copy of another; 0 means the default for `parallel`, and no limit for `bytes_per_second`."""
    if not 0 <= parallel <= _PARALLEL_MAX:
        raise InvalidArgument(Reason.INVALID_FIELD, f"parallel: expected 1 to {_PARALLEL_MAX}, got {parallel}")

    async def work(connection: AsyncConnection) -> None:
        await store_table.lock_list(connection)
        source, target = await _find(connection, from_name), await _find(connection, to_name)
        if source.id == target.id:
            raise InvalidArgument(Reason.INVALID_FIELD, f"to_store: expected another store than {from_name}")
        if target.is_primary:
            raise InvalidArgument(
                Reason.INVALID_FIELD, f"to_store: expected another than the primary, which is no copy, got {to_name}"
            )
        await store_table.start_copy(
            connection,
            source.id,
            target.id,
            parallel=parallel or PARALLEL_DEFAULT,
            bytes_per_second=bytes_per_second or None,
        )

    await context.database.run(work)
    await _follow(context)


async def stop_copy(context: StorageContext, name: str) -> None:
    """Make a store no copy any more."""

    async def work(connection: AsyncConnection) -> None:
        await store_table.lock_list(connection)
        await store_table.stop_copy(connection, (await _find(connection, name)).id)

    await context.database.run(work)
    await _follow(context)


async def set_primary(context: StorageContext, name: str) -> None:
    """Make a store that lacks nothing the primary."""

    async def work(connection: AsyncConnection) -> None:
        await store_table.lock_list(connection)
        found = await _find(connection, name)
        after = None
        while after != "":
            lacking, after = await store_table.lacking(connection, found.id, after=after or "", limit=_WINDOW)
            if lacking:
                raise FailedPrecondition(
                    Reason.STORE_INCOMPLETE,
                    f"store {name} lacks objects that another store has; let it be a copy until it has them all",
                )
        if not found.is_primary:
            await store_table.set_primary(connection, found.id)

    await _require_usable(context, (await context.database.run(lambda connection: _find(connection, name))).id)
    await context.database.run(work)
    await _follow(context)


async def _require_usable(context: StorageContext, store_id: int) -> None:
    await context.stores.refresh()
    store = context.stores.get(store_id)
    if store is None:
        raise _unusable("it cannot be opened; the log of the storage service says why")
    try:
        async with asyncio.timeout(_TRIAL_SECONDS):
            await store.backend.check()
    except (ServiceError, OSError) as error:
        raise _unusable(str(error) or "it does not answer") from error


async def delete_store(context: StorageContext, name: str) -> None:
    """Delete a store on which nothing depends. The store is no copy any more, even if its deletion fails."""
    await stop_copy(context, name)
    await context.database.run(partial(_require_unneeded, name))
    while await context.database.run(partial(_let_go, name)):
        pass
    deadline = asyncio.get_running_loop().time() + _LAST_UPLOADS_SECONDS
    while True:
        try:
            await context.database.run(partial(_delete, name))
            break
        except _UploadsGoOn as error:
            # Uploads of the copying that was just stopped end soon.
            if asyncio.get_running_loop().time() > deadline:
                raise _in_use(name, "uploads to it go on, or may still come; try again later") from error
            await asyncio.sleep(_RETRY_SECONDS)
    await _follow(context)


class _UploadsGoOn(Exception):
    """Rolls the transaction back, because uploads to the store are still pending."""


async def _require_unneeded(name: str, connection: AsyncConnection) -> StoreRecord:
    found = await _find(connection, name)
    if found.is_primary:
        raise _in_use(name, "it is the primary")
    if await store_table.is_copied(connection, found.id):
        raise _in_use(name, "another store is a copy of it")
    return found


async def _let_go(name: str, connection: AsyncConnection) -> int:
    return await store_table.release_store_rows(connection, (await _find(connection, name)).id, limit=_WINDOW)


async def _delete(name: str, connection: AsyncConnection) -> None:
    await store_table.lock_list(connection)
    found = await _require_unneeded(name, connection)
    await store_table.hold_uploads(connection, found.id)
    if await store_table.has_uploads(connection, found.id):
        raise _UploadsGoOn
    await partial_uploads.discard_in_store(connection, found.id)
    if await store_table.has_alone(connection, found.id):
        raise _in_use(name, "it alone has the bytes of some objects")
    await store_table.forget(connection, found.id)


async def _find(connection: AsyncConnection, name: str) -> StoreRecord:
    found = await store_table.find(connection, name)
    if found is None:
        raise NotFound(Reason.STORE_NOT_FOUND, f"there is no store {name[:80]!a}")
    return found


def _in_use(name: str, why: str) -> FailedPrecondition:
    return FailedPrecondition(Reason.STORE_IN_USE, f"store {name} is in use: {why}")


async def _follow(context: StorageContext) -> None:
    """Refresh the list of stores in this process; other processes follow by themselves."""
    await context.stores.refresh()
    context.copy_wanted.set()
