"""The restore of a backup into an empty stack: verification first, bytes before rows, and a check at the end."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from services.backup.check import check
from services.backup.copy_objects import DamagedBytes, copy_in
from services.backup.errors import BackupError
from services.backup.load_tables import begin_restore, goes_on, load
from services.backup.object_list import Entry, read_list
from services.backup.parallel import batches, map_concurrently
from services.backup.report import Findings
from services.backup.stores import Source
from services.backup.verification import VerifiedBackup, verify
from services.common.concurrency.uncancellable import run_in_thread
from services.common.progress import progress
from services.storage.backends.base import Backend


async def restore(
    target: Source, source: Path, *, digest: str | None, skip_damaged: bool
) -> tuple[Mapping[str, object], Findings]:
    """Restore the backup in the folder `source`; return a report, and the findings of a check of the result.

    However many stores the backup had, the target has one, the primary of `target`. The target must have neither rows
    nor objects, or be the result of an interrupted restore, which this call then continues. No service serves the
    target before the restore is complete. Raises `BackupError` with every part of the backup that is missing or
    damaged; with `skip_damaged`, objects with missing or damaged bytes are left out, and restored as missing.
    """
    backend = target.primary.backend
    backup = await run_in_thread(verify, source, digest=digest)
    refuse(backup.damaged, skip_damaged=skip_damaged)
    if backup.manifest.objects.copied:
        if await goes_on(target.engine):
            await _require_no_others(backend, backup)
        else:
            await _require_no_objects(backend)
        await begin_restore(target.engine)
        await _copy_objects(backend, backup)
        refuse(backup.damaged, skip_damaged=skip_damaged)
    else:
        await _require_objects(backend, backup)
        await begin_restore(target.engine)
    await load(target.engine, backup.manifest, backup.index)
    findings = await check(target, hashed=False, rate=None)
    skipped = [{"oid": oid, "problem": problem} for oid, problem in sorted(backup.damaged.items())]
    return {**backup.manifest.summary(backup.digest), "skipped": skipped}, findings


def refuse(damaged: Mapping[str, str], *, skip_damaged: bool) -> None:
    """Raise `BackupError` with the damaged objects, unless there are none or they may be skipped."""
    if damaged and not skip_damaged:
        listed = [f"{oid}: {problem}" for oid, problem in sorted(damaged.items())]
        raise BackupError(f"the backup is damaged: {len(damaged)} objects are not what was written:", listed)


async def _require_no_objects(backend: Backend) -> None:
    async for name, _ in backend.list_blobs():
        raise BackupError(f"expected a storage without objects, found {name}")


async def _require_no_others(backend: Backend, backup: VerifiedBackup) -> None:
    """Raise `BackupError` for a blob that an earlier restore of this backup cannot have written."""
    listed = read_list(backup.object_list)
    entry = await run_in_thread(next, listed, None)
    async for name, _ in backend.list_blobs():
        while entry is not None and entry.name < name:
            entry = await run_in_thread(next, listed, None)
        # Any size will do: the earlier restore may have been killed amid a blob, and the blob is copied again.
        if entry is None or entry.name != name:
            raise BackupError(f"expected a storage without objects other than the backup's, found {name}")


async def _require_objects(backend: Backend, backup: VerifiedBackup) -> None:
    lost = {lost.oid for lost in backup.manifest.objects.lost}
    wrong = []
    async for batch in batches(read_list(backup.object_list)):
        there = await backend.stat(entry.name for entry in batch)
        wrong += [
            f"{entry.oid}: missing" for entry in batch if there.get(entry.name) != entry.size and entry.oid not in lost
        ]
    if wrong:
        raise BackupError(f"the backup has no bytes of objects, and {len(wrong)} are not in the storage either:", wrong)


async def _copy_objects(backend: Backend, backup: VerifiedBackup) -> None:
    with progress("Restoring objects", backup.manifest.objects.bytes) as shown:
        await map_concurrently(read_list(backup.object_list), partial(_copy, backend, backup, shown))


async def _copy(backend: Backend, backup: VerifiedBackup, shown: Callable[[int], None], entry: Entry) -> None:
    oid, size = entry.oid, entry.size
    known = oid in backup.damaged or oid in backup.absent
    if not known and (await backend.stat([entry.name])).get(entry.name) != size:
        try:
            await copy_in(backup.folder, backend, entry)
        except DamagedBytes as error:
            backup.damaged[oid] = str(error)
    shown(size)
