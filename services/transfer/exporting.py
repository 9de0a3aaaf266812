"""The export of the objects and locks of a repository."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path

from services.cli.connection import Administration
from services.cli.errors import CommandError
from services.cli.pointers.named import SIZE_BYTES
from services.cli.pointers.oid_spool import OidSpool
from services.common.concurrency.uncancellable import run_in_thread
from services.transfer.addresses import folder_of, is_bucket, open_sink, opened_server, server_url
from services.transfer.importing import Pace, Report, move
from services.transfer.locks import standing_locks, write_list
from services.transfer.towpath import TowpathSource


@dataclass(frozen=True)
class Export:
    """An export that is asked for; see the options of `towpath repo export`."""

    repository: str
    target: str
    lock_list: Path | None
    pace: Pace


async def export_repository(admin: Administration, asked: Export) -> Report:
    """Export what the target lacks. Raises `CommandError` and `ServiceError`."""
    url = server_url(asked.target)
    async with AsyncExitStack() as stack:
        server = None
        if url is not None:
            server = (await stack.enter_async_context(opened_server(url, None, asked.pace.concurrency)), url)
        elif not is_bucket(asked.target):
            folder_of(asked.target)
        with OidSpool(SIZE_BYTES) as spool:
            source = TowpathSource(admin, asked.repository, "")
            # Before a folder is made: the repository may not exist.
            await source.add_all(spool)
            sink = await open_sink(stack, asked.target, server)
            source.destination = sink.name
            report, is_well = await move(spool, source, sink, asked.pace, f"export to {sink.name}")
        record = {"repository": asked.repository, "to": sink.name, **report}
        if asked.lock_list is not None:
            locks = [lock async for lock in standing_locks(admin, asked.repository)]
            try:
                await run_in_thread(write_list, asked.lock_list, locks)
            except OSError as error:
                raise CommandError(f"{asked.lock_list}: {(error.strerror or str(error)).lower()}") from error
            record["lock_count"] = len(locks)
    return record, is_well
