"""Another server as the place that objects come from, or go to."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from typing import Never

import httpx

from services.cli.errors import CommandError
from services.cli.pointers.named import Pointer
from services.cli.pointers.oid_spool import OidSpool
from services.transfer.errors import Interrupted, Kind, ObjectProblem
from services.transfer.places import Lacking
from services.transfer.retries import MAX_TRIES, repeated
from services.transfer.server.batch import Action, BatchClient, Operation
from services.transfer.server.http import MEDIA_TYPE, Http, Refused

_BYTES = "application/octet-stream"
_PARTIAL = 206
_RANGE_REFUSED = 416
# The answers to an action that has ended, or whose object is gone.
_OVER = (401, 403, 404, 410)
# With one of these, an answer that ends early is no answer that ends.
_FRAMED = ("content-length", "transfer-encoding")
_CHUNK_BYTES = 256 * 1024
_CONTENT_RANGE = re.compile(r"bytes ([0-9]{1,18})-")


class _Actions:
    """The actions that the batch has given for objects, each of which is used once."""

    def __init__(self, batch: BatchClient, operation: Operation) -> None:
        self._batch = batch
        self._operation: Operation = operation
        self._found: dict[str, Mapping[str, Action]] = {}
        self._problems: dict[str, ObjectProblem] = {}

    async def ask(self, pointers: Sequence[Pointer]) -> Lacking:
        """Ask about objects; return those that have actions, and the problems of others."""
        answer = await self._batch.ask(self._operation, pointers)
        self._found |= {oid: actions for oid, actions in answer.actions.items() if actions}
        self._problems |= answer.problems
        return Lacking([pointer for pointer in pointers if answer.actions.get(pointer.oid)], answer.problems)

    async def take(self, pointer: Pointer) -> Mapping[str, Action]:
        """Return the actions for an object, asking anew where the known ones are over. Raises `ObjectProblem`."""
        actions = self._found.pop(pointer.oid, None)
        if actions is None or any(action.is_over for action in actions.values()):
            if pointer.oid not in self._problems:
                await self.ask([pointer])
            if (problem := self._problems.pop(pointer.oid, None)) is not None:
                raise problem
            actions = self._found.pop(pointer.oid, {})
        return actions


class ServerSource:
    """A server that objects come from. It cannot list them: the pointers of a git repository name them."""

    def __init__(self, http: Http, url: str) -> None:
        self.name = url
        self._http = http
        self._actions = _Actions(BatchClient(http, url), "download")
        self._over = _OverCounts()

    async def add_all(self, spool: OidSpool) -> None:
        """Raise `CommandError`: only a git repository tells what there is."""
        raise CommandError(f"{self.name}: a server does not list its objects; give the git repository with --git")

    async def announce(self, pointers: Sequence[Pointer]) -> None:
        """Ask for the actions."""
        if pointers:
            await self._actions.ask(pointers)

    async def read(self, pointer: Pointer) -> AsyncGenerator[bytes, None]:
        """Yield the bytes; where they end early, go on from there, if the server can."""
        action = (await self._actions.take(pointer))["download"]
        position = breaks = 0
        while True:
            reached = position
            try:
                async with aclosing(self._rest(action, pointer, position)) as chunks:
                    async for chunk in chunks:
                        position += len(chunk)
                        if position > pointer.size:
                            raise ObjectProblem(Kind.WRONG, f"there are more than {pointer.size} bytes")
                        yield chunk
            except Refused as error:
                self._over.refuse(pointer, error)
            except Interrupted:
                breaks += 1
                # What has brought nothing since is begun anew.
                if position == reached or position >= pointer.size or breaks == MAX_TRIES:
                    raise
            else:
                return

    async def _rest(self, action: Action, pointer: Pointer, position: int) -> AsyncGenerator[bytes, None]:
        """Yield the bytes from a position on."""
        headers = {**action.headers, **({"Range": f"bytes={position}-"} if position else {})}
        async with self._http.send("GET", action.href, headers=headers) as response:
            skipped = position if not _begins_at(response, position) else 0
            came = 0
            async for chunk in response.aiter_bytes(_CHUNK_BYTES):
                came += len(chunk)
                if came > skipped:
                    yield chunk[max(0, len(chunk) - (came - skipped)) :]
            reached = came - skipped + position
            if reached < pointer.size:
                if response.headers.keys().isdisjoint(_FRAMED):
                    raise Interrupted(f"the answer ended after {reached} bytes")
                raise ObjectProblem(Kind.WRONG, f"there are {reached} bytes instead of {pointer.size}")


class ServerSink:
    """A server that objects go to."""

    verifies = False
    max_group = 1

    def __init__(self, http: Http, url: str) -> None:
        self.name = url
        self._http = http
        self._actions = _Actions(BatchClient(http, url), "upload")
        self._over = _OverCounts()

    async def lacking(self, pointers: Sequence[Pointer]) -> Lacking:
        """Ask for the actions: there is none for what the server has."""
        return await self._actions.ask(pointers)

    async def write(self, pointer: Pointer, chunks: AsyncGenerator[bytes, None]) -> None:
        """Upload the bytes, and let the server verify them where it wants to."""
        async with aclosing(chunks):
            actions = await self._actions.take(pointer)
            if (action := actions.get("upload")) is None:
                return
            headers = {"Content-Type": _BYTES, **action.headers, "Content-Length": str(pointer.size)}
            try:
                async with self._http.send("PUT", action.href, headers=headers, content=_body(chunks)) as response:
                    await response.aread()
                if (verify := actions.get("verify")) is not None:
                    await repeated(lambda: self._verify(verify, pointer))
            except Refused as error:
                self._over.refuse(pointer, error)

    async def write_small(self, objects: Sequence[tuple[Pointer, bytes]]) -> Sequence[ObjectProblem | None]:
        """Not called: `max_group` is 1."""
        raise NotImplementedError

    async def _verify(self, action: Action, pointer: Pointer) -> None:
        headers = {"Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE, **action.headers}
        content = b'{"oid": "%b", "size": %d}' % (pointer.oid.encode(), pointer.size)
        async with self._http.send("POST", action.href, headers=headers, content=content):
            pass


class _OverCounts:
    """The objects whose actions were refused once, as they are when they have ended."""

    def __init__(self) -> None:
        self._refused: set[str] = set()

    def refuse(self, pointer: Pointer, error: Refused) -> Never:
        """Raise `Interrupted`, so that the batch is asked anew, the first time; and then what is wrong."""
        if error.status in (*_OVER, _RANGE_REFUSED) and pointer.oid not in self._refused:
            self._refused.add(pointer.oid)
            raise Interrupted(error.message, seconds=0.0) from error
        kind = Kind.MISSING if error.status in (404, 410) else Kind.FAILED
        raise ObjectProblem(kind, error.message) from error


async def _body(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        yield chunk


def _begins_at(response: httpx.Response, position: int) -> bool:
    """Return whether the answer to a request for the bytes from a position on begins there, and not at the first byte.

    Raises `Interrupted` where it begins elsewhere.
    """
    if response.status_code != _PARTIAL:
        return position == 0
    found = _CONTENT_RANGE.match(response.headers.get("content-range", ""))
    if found is None or int(found[1]) != position:
        raise Interrupted("the server answers with other bytes than those that were asked for", seconds=0.0)
    return True
