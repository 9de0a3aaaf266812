"""Writing objects that come in one piece: those that come at once share their ways to the disk and to the index."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from services.common.errors import ServiceError
from services.common.grouped import Grouped
from services.storage.backend import Chunk
from services.storage.commit import keep
from services.storage.incoming import Incoming, put
from services.storage.index import Record
from services.storage.noted import noted_uploads
from services.storage.store import Store
from services.storage.stores.places import Place
from services.storage.tally import Tally
from services.storage.upload_stream import UploadHeader

# The bytes of so many are in memory, and written by one thread.
_MOST = 32
# Several times what a group takes on a healthy disk.
_HELD_SECONDS = 0.03
# What is far takes long, whatever else is on its way.
_REMOTE_AT_ONCE = 16


@dataclass(frozen=True)
class _Whole:
    """An object that is here, verified."""

    header: UploadHeader
    data: Chunk


class WholeObjects:
    """Writes objects that come in one piece, in groups. Its owner closes it, when no upload goes on any more."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._grouped = Grouped(self._write, most=_MOST, held_seconds=_HELD_SECONDS)
        self._grouped_remote = Grouped(self._write, most=_MOST, at_once=_REMOTE_AT_ONCE, held_seconds=0)

    async def write(self, header: UploadHeader, data: Chunk) -> Record:
        """Take the bytes, and return the record of the object that the repository now holds.

        Raises what WriteObject documents; nothing is kept then. Who gives up waiting changes nothing.
        """
        await self._store.traffic.require(header.repository_id)
        self._store.traffic.count(header.repository_id, bytes_in=len(data))
        tally = Tally(header.oid, header.size)
        tally.count(data)
        await tally.hash(data)
        tally.finish()
        is_remote = self._store.places.primary.backend.is_remote
        return await (self._grouped_remote if is_remote else self._grouped).ask(_Whole(header, data))

    async def close(self) -> None:
        """Give up what is under way."""
        await self._grouped.close()
        await self._grouped_remote.close()

    async def _write(self, group: Sequence[_Whole]) -> Sequence[Record | ServiceError]:
        size = sum(whole.header.size for whole in group)
        async with (
            self._store.room.announced(size) as announced,
            noted_uploads(self._store, [whole.header for whole in group]) as noted,
        ):
            await announced.expect(size)
            bytes_of: dict[Place, dict[str, Chunk]] = {}
            for whole, incoming in zip(group, noted, strict=True):
                if not isinstance(incoming, ServiceError):
                    for one in incoming:
                        bytes_of.setdefault(one.place, {})[one.name] = whole.data
            kept_up = await put(bytes_of, self._store.places) if bytes_of else set()
            announced.arrived(size)
            if len(kept_up) < len(bytes_of):
                self._store.sweep_wanted.set()
                self._store.copy_wanted.set()
            return await asyncio.gather(
                *(self._keep(whole, incoming, kept_up) for whole, incoming in zip(group, noted, strict=True))
            )

    async def _keep(
        self, whole: _Whole, noted: list[Incoming] | ServiceError, kept_up: set[Place]
    ) -> Record | ServiceError:
        if isinstance(noted, ServiceError):
            return noted
        try:
            return await keep(self._store, whole.header, [one for one in noted if one.place in kept_up])
        except ServiceError as error:
            self._store.sweep_wanted.set()
            return error
