"""The making of a backup: its locks, the order of its writes, and the step from which on it counts."""

import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path

from services.backup.backup_locks import Hold, hold
from services.backup.copy_objects import DamagedBytes, copy_out
from services.backup.errors import BackupError
from services.backup.folder import BackupFolder
from services.backup.inventory import places_of
from services.backup.manifest import LostObject, Manifest, ObjectList
from services.backup.object_list import Entry, read_list
from services.backup.parallel import map_concurrently
from services.backup.snapshot import take_snapshot
from services.backup.stores import Source
from services.common.concurrency.uncancellable import run_in_thread
from services.common.progress import progress

MAX_LOST = 1000
"""The most lost objects in a backup. A state with more is not worth a backup, and the earlier backup stays."""


@dataclass
class _Copied:
    """The result of copying the objects of a list."""

    count: int = 0
    bytes: int = 0
    new_count: int = 0
    new_bytes: int = 0
    problems: list[LostObject] = field(default_factory=list)


async def back_up(source: Source, target: Path, *, copy_objects: bool, prune: bool) -> Mapping[str, object]:
    """Create the backup in the folder `target`, or update it to this moment, and return a report of its contents.

    Until the last step, an earlier backup in the folder counts, and it stays whole. No call of a service waits for the
    backup. Objects that the stack itself has lost, and that no earlier backup in the folder has, are reported and not
    copied. `prune` removes the bytes that this backup does not name. Raises `BackupError`.
    """
    folder = BackupFolder(target)
    name = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(4)}"
    with folder.writing():
        try:
            async with hold(source.engine) as held:
                manifest, copied = await held.during(_write(source, folder, name, held, copy_objects=copy_objects))
        except BaseException:
            await run_in_thread(folder.discard_snapshot, name)
            raise
        text, digest = manifest.render()
        await run_in_thread(folder.commit, text, name)
        pruned = await run_in_thread(_prune, folder, name) if prune else None
    return {
        **manifest.summary(digest),
        "copied_objects": copied.new_count,
        "copied_bytes": copied.new_bytes,
        "lost": [lost.model_dump() for lost in manifest.objects.lost],
        **({} if pruned is None else {"pruned_objects": pruned}),
    }


async def _write(
    source: Source, folder: BackupFolder, name: str, held: Hold, *, copy_objects: bool
) -> tuple[Manifest, _Copied]:
    index = await run_in_thread(folder.make_snapshot, name)
    created_at = datetime.now(UTC)
    snapshot = await take_snapshot(source.engine, index)
    await held.let_migrate()
    copied = await run_in_thread(_count, index / "objects")
    if copy_objects:
        with progress("Copying objects", copied.bytes) as shown:
            await map_concurrently(
                read_list(index / "objects"), partial(_copy, source, folder, copied=copied, shown=shown)
            )
        await run_in_thread(folder.sync_objects)
    manifest = Manifest(
        format=1,
        created_at=created_at,
        towpath=version("towpath"),
        snapshot=name,
        revisions=snapshot.revisions,
        tables=snapshot.tables,
        sequences=snapshot.sequences,
        objects=ObjectList(
            count=copied.count,
            bytes=copied.bytes,
            sha256=snapshot.objects_sha256,
            copied=copy_objects,
            lost=tuple(sorted(copied.problems, key=lambda lost: lost.oid)),
        ),
    )
    return manifest, copied


def _count(objects: Path) -> _Copied:
    copied = _Copied()
    for entry in read_list(objects):
        copied.count += 1
        copied.bytes += entry.size
    return copied


async def _copy(
    source: Source, folder: BackupFolder, entry: Entry, *, copied: _Copied, shown: Callable[[int], None]
) -> None:
    oid, size = entry.oid, entry.size
    there = await run_in_thread(folder.size_of, entry.name)
    if there != size and not await run_in_thread(folder.take_over, entry.name, size):
        try:
            await _copy_from_any(source, folder, entry)
            copied.new_count += 1
            copied.new_bytes += size
        except DamagedBytes as error:
            copied.problems.append(LostObject(oid=oid, problem=str(error)))
            if len(copied.problems) > MAX_LOST:
                listed = [f"{lost.oid}: {lost.problem}" for lost in copied.problems]
                raise BackupError(f"more than {MAX_LOST} objects are lost; run `towpath check`:", listed) from None
    shown(size)


async def _copy_from_any(source: Source, folder: BackupFolder, entry: Entry) -> None:
    """Copy an object from the first store whose blob is intact. Raises `DamagedBytes` if no store has one."""
    problems = []
    for store, name in await places_of(source, entry):
        try:
            return await copy_out(store.backend, folder, entry, stored_as=name)
        except DamagedBytes as error:
            problems.append(f"{store.name}: {error}" if len(source.stores) > 1 else str(error))
    raise DamagedBytes("; ".join(problems))


def _prune(folder: BackupFolder, name: str) -> int:
    """Remove the objects that the list does not name, and return their number."""
    listed = read_list(folder.snapshot(name) / "objects")
    entry = next(listed, None)
    pruned = 0
    for name, _ in folder.objects():
        while entry is not None and entry.name < name:
            entry = next(listed, None)
        if entry is None or entry.name != name:
            folder.remove(name)
            pruned += 1
    return pruned
