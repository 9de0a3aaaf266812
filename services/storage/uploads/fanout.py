"""Bytes on their way to the primary, and to its copies as far as they keep up."""

import asyncio
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass

from services.common.observability.logs import get_logger
from services.storage.backends.base import Chunk, Upload
from services.storage.index.contents import Arrived, Placed
from services.storage.stores.registry import Place, Places

_LATE_CHUNKS = 4
_LATE_SECONDS = 5.0
_END_SECONDS = 10.0

_log = get_logger(__name__)


@dataclass(frozen=True)
class Incoming:
    """Bytes on their way to one store. `replaces` is under which name the object's bytes lay there before."""

    place: Place
    name: str
    replaces: str | None

    @property
    def placed(self) -> Placed:
        """Where they are when they have arrived."""
        return Placed(self.place.id, self.name)

    def arrived(self, oid: str) -> Arrived:
        """Return them as the bytes that the object is to have there."""
        return Arrived(self.place.id, oid, self.name, self.replaces, self.place.replaced_seconds)


class _Aside:
    """What is done for a copy beside the primary. Whatever goes wrong there, or is slow, ends this and nothing else."""

    def __init__(self, place: Place, work: Coroutine[object, object, None], places: Places) -> None:
        self._place = place
        self._places = places
        self._task = asyncio.create_task(work)

    async def finish(self) -> bool:
        """Tell whether the bytes are in place."""
        await asyncio.wait({self._task}, timeout=_END_SECONDS)
        if not self._task.done():
            self._leave_behind("it is too slow")
        return self._task.done() and not self._task.cancelled() and self._task.exception() is None

    async def end(self) -> None:
        """End what still goes on."""
        self._task.cancel()
        await asyncio.wait({self._task}, timeout=_END_SECONDS)
        if self._task.done() and not self._task.cancelled() and (error := self._task.exception()) is not None:
            self._leave_behind(repr(error))

    def _leave_behind(self, why: str) -> None:
        self._task.cancel()
        self._places.pause(self._place)
        _log.warning("a copy is left behind", store=self._place.name, why=why)


class _Mirror(_Aside):
    """The bytes on their way to a copy."""

    def __init__(self, incoming: Incoming, size: int, places: Places) -> None:
        self.incoming = incoming
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue(_LATE_CHUNKS)
        super().__init__(incoming.place, self._run(size), places)

    async def _run(self, size: int) -> None:
        try:
            async with self.incoming.place.backend.begin(self.incoming.name, size) as upload:
                while (chunk := await self._chunks.get()) is not None:
                    await upload.write(chunk)
                await upload.finish()
        finally:
            # Who waits to add more waits no longer.
            while not self._chunks.empty():
                self._chunks.get_nowait()

    async def add(self, chunk: Chunk | None) -> None:
        """Add bytes; None at their end."""
        if self._task.done():
            return
        try:
            async with asyncio.timeout(_LATE_SECONDS):
                await self._chunks.put(chunk)
        except TimeoutError:
            self._leave_behind("it is too slow")

    async def finish(self) -> bool:
        """Tell whether the bytes are in place."""
        await self.add(None)
        return await super().finish()


class Uploads:
    """One upload to several stores. What it raises is what the primary's raises."""

    def __init__(self, first: Incoming, upload: Upload, mirrors: Sequence[_Mirror]) -> None:
        self._first = first
        self._upload = upload
        self._mirrors = mirrors
        self.has_left_behind = False
        """Whether a copy has not kept up, and must be brought the bytes later."""

    async def write(self, chunk: Chunk) -> None:
        """Add bytes at the end. Raises what `Upload.write` raises."""
        if not self._mirrors:
            await self._upload.write(chunk)
            return
        await asyncio.gather(self._upload.write(chunk), *(mirror.add(chunk) for mirror in self._mirrors))

    async def finish(self) -> list[Incoming]:
        """Put the bytes in place, and return where: in the primary, and in those copies that have kept up."""
        _, *kept = await asyncio.gather(self._upload.finish(), *(mirror.finish() for mirror in self._mirrors))
        self.has_left_behind = not all(kept)
        return [self._first, *(mirror.incoming for mirror, has in zip(self._mirrors, kept, strict=True) if has)]


@asynccontextmanager
async def begun(incoming: Sequence[Incoming], size: int, places: Places) -> AsyncIterator[Uploads]:
    """Begin an upload of `size` bytes to the stores; the first is the primary."""
    first, *others = incoming
    async with first.place.backend.begin(first.name, size) as upload:
        mirrors = [_Mirror(one, size, places) for one in others]
        try:
            yield Uploads(first, upload, mirrors)
        finally:
            # Of those that have finished this changes nothing.
            await asyncio.gather(*(mirror.end() for mirror in mirrors))


async def put(contents: Mapping[Place, Mapping[str, Chunk]], places: Places) -> set[Place]:
    """Put whole objects in place, in each store under their names there; the first store is the primary.

    Return which stores have them: the primary, and those copies that have kept up. Raises what `Backend.put` of the
    primary raises.
    """
    (primary, named), *others = contents.items()
    copies = {place: _Aside(place, place.backend.put(named), places) for place, named in others}
    try:
        await primary.backend.put(named)
        return {primary, *[place for place, copy in copies.items() if await copy.finish()]}
    finally:
        # Of those that have finished this changes nothing.
        await asyncio.gather(*(copy.end() for copy in copies.values()))
