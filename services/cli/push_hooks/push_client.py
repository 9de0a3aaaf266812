"""The hooks' client of PushService: the check of a push, and the release of locks by it."""

from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from towpath.locks.v1 import push_service_pb2 as pb
from towpath.locks.v1.lock_service_pb2 import Lock
from towpath.locks.v1.push_service_pb2_grpc import PushServiceStub

from services.cli.connection import Location
from services.cli.push_hooks.changes import in_batches
from services.cli.push_hooks.pusher import Pusher
from services.common.errors import Aborted, DeadlineExceeded, ServiceError, Unavailable
from services.common.rpc.client import ServiceClient

if TYPE_CHECKING:
    # Only the type stubs distinguish the asynchronous stub from the synchronous one.
    from towpath.locks.v1.push_service_pb2_grpc import PushServiceAsyncStub

DEFAULT_SPACE = ""
"""The lock space of the refs that no rule of a repository names."""

_CALL_SECONDS = 10.0
# The bounds of one call.
_MAX_REFS, _MAX_REFS_BYTES = 1_000, 1024**2
# Enough to show the first of them, whatever the number of locks.
_MAX_KEPT = 1_000
_MAX_REASON_CHARACTERS = 500


@dataclass
class Verdict:
    """The locks in the way of a push, the first thousand of them by id, and whether the pusher is a user of Towpath."""

    blocking: dict[str, Lock] = field(default_factory=dict)
    more: int = 0
    pusher_is_known: bool = True

    def add(self, response: pb.CheckPushResponse) -> None:
        """Add the answer of a call."""
        self.pusher_is_known = response.pusher_is_known
        self.more += response.blocking_count - len(response.blocking)
        for lock in response.blocking:
            if lock.id in self.blocking or len(self.blocking) < _MAX_KEPT:
                self.blocking[lock.id] = lock
            else:
                self.more += 1


class PushClient:
    """A client of PushService that speaks of one repository and one pusher; `origin` is that of the pusher's name."""

    def __init__(self, location: Location, *, repository: str, pusher: Pusher, origin: str | None) -> None:
        self._client = ServiceClient(location.address, deadline=_CALL_SECONDS, secret=location.token, tls=location.tls)
        self._stub: PushServiceAsyncStub = PushServiceStub(self._client.channel)
        self._repository = repository
        self._pusher = pusher
        self._origin = origin

    async def check(self, verdict: Verdict, ref: str, paths: AsyncGenerator[bytes, None]) -> None:
        """Add to the verdict the locks that stand in the way of changes of paths. Raises `ServiceError`."""
        async with aclosing(in_batches(paths)) as batches:
            async for batch in batches:
                request = pb.CheckPushRequest(
                    repository=self._repository,
                    user_name=self._pusher.name,
                    account_id=self._pusher.account_id,
                    origin=self._origin,
                    ref=ref,
                    paths=batch,
                )
                verdict.add(await self._client.call(self._stub.CheckPush, request))

    async def spaces(self, refs: Sequence[str]) -> Sequence[str] | None:
        """Return the lock space of each ref; None where the repository has one space alone. Raises `ServiceError`."""
        spaces: list[str] = []
        for some in in_calls(refs):
            request = pb.FindLockSpacesRequest(repository=self._repository, refs=some)
            response = await self._client.call(self._stub.FindLockSpaces, request)
            if not response.has_rules:
                return None
            spaces.extend(response.spaces)
        return spaces

    async def release(self, ref: str, paths: AsyncGenerator[bytes, None], *, reason: str) -> Sequence[Lock]:
        """Release the pusher's locks on paths, and return them, if a push to the ref does so. Raises `ServiceError`."""
        released: list[Lock] = []
        async with aclosing(in_batches(paths)) as batches:
            async for batch in batches:
                request = pb.ReleasePushedRequest(
                    repository=self._repository,
                    user_name=self._pusher.name,
                    account_id=self._pusher.account_id,
                    origin=self._origin,
                    ref=ref,
                    paths=batch,
                    reason=reason[:_MAX_REASON_CHARACTERS],
                )
                response = await self._client.call(self._stub.ReleasePushed, request)
                if not response.is_release_ref:
                    break
                released.extend(response.locks)
        return released

    async def close(self) -> None:
        """Close the connection."""
        await self._client.close()


def in_calls(refs: Iterable[str]) -> Iterator[Sequence[str]]:
    """Yield refs in their order, in lists for one call each."""
    some: list[str] = []
    size = 0
    for ref in refs:
        size += len(ref.encode())
        if some and (len(some) >= _MAX_REFS or size > _MAX_REFS_BYTES):
            yield some
            some, size = [], len(ref.encode())
        some.append(ref)
    if some:
        yield some


def is_no_answer(error: ServiceError) -> bool:
    """Return whether an error says that the service cannot answer at present, and nothing about the call."""
    # An internal error is a plain `ServiceError`.
    return isinstance(error, Unavailable | DeadlineExceeded | Aborted) or type(error) is ServiceError
