"""A repository of Towpath as the place that objects go to, or come from: through AdminService, as its commands work."""

from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import status_pb2
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.cli.admin.pagination import pages
from services.cli.connection import Administration
from services.cli.errors import CommandError
from services.cli.pointers.named import SIZE_BYTES, Pointer
from services.cli.pointers.oid_spool import OidSpool
from services.common.errors import (
    Aborted,
    DataLoss,
    DeadlineExceeded,
    InvalidArgument,
    Reason,
    ServiceError,
    Unavailable,
    from_status,
)
from services.common.rpc.options import CHUNK_BYTES
from services.transfer.errors import Interrupted, Kind, ObjectProblem
from services.transfer.places import Lacking, exactly
from services.transfer.retries import required

_MAX_PLACE = 1_000
_WRONG = (Reason.HASH_MISMATCH, Reason.SIZE_MISMATCH)
_GONE = (Reason.OBJECT_NOT_FOUND, Reason.OBJECT_REMOVED)


class TowpathSink:
    """A repository that objects go to. The storage service compares each with its oid, as with any upload."""

    verifies = True
    max_group = 100

    def __init__(self, admin: Administration, repository: str, origin: str) -> None:
        self.name = repository
        self._admin = admin
        self._origin = origin[:_MAX_PLACE]

    async def lacking(self, pointers: Sequence[Pointer]) -> Lacking:
        """Ask which objects the repository holds, and reserve room for the others."""
        request = pb.AnnounceObjectsRequest(
            repository=self.name,
            objects=(
                storage.BatchStatObjectsRequest.ObjectKey(oid=pointer.oid, size=pointer.size) for pointer in pointers
            ),
        )

        async def ask() -> pb.AnnounceObjectsResponse:
            try:
                return await self._admin.call(self._admin.stub.AnnounceObjects, request)
            except ServiceError as error:
                raise interrupted(error) from error

        answer = await required(ask)
        lacking: list[Pointer] = []
        problems: dict[str, ObjectProblem] = {}
        for pointer, state in zip(pointers, answer.objects, strict=True):
            if state.status == storage.OBJECT_STATUS_OVER_QUOTA:
                raise CommandError(f"{self.name}: the quota has no room for more objects")
            if state.status == storage.OBJECT_STATUS_REMOVED:
                message = f"the object was removed from the repository: {state.removal_reason}"
                problems[pointer.oid] = ObjectProblem(Kind.REFUSED, message)
            elif state.status != storage.OBJECT_STATUS_PRESENT:
                lacking.append(pointer)
        return Lacking(lacking, problems)

    async def write(self, pointer: Pointer, chunks: AsyncGenerator[bytes, None]) -> None:
        """Send the bytes of one object."""

        async def messages() -> AsyncIterator[pb.ImportObjectRequest]:
            header = pb.ImportObjectRequest.Header(
                repository=self.name, origin=self._origin, oid=pointer.oid, size=pointer.size
            )
            yield pb.ImportObjectRequest(header=header)
            async for chunk in chunks:
                for start in range(0, len(chunk), CHUNK_BYTES):
                    yield pb.ImportObjectRequest(data=chunk[start : start + CHUNK_BYTES])

        answers = self._admin.exchange("ImportObject", messages(), pb.ImportObjectResponse)
        async with aclosing(chunks), aclosing(answers):
            try:
                async for answer in answers:
                    if answer.HasField("object"):
                        return
            except ServiceError as error:
                raise problem_of(error) from error
        raise Interrupted("the service has not told that it holds the object")

    async def write_small(self, objects: Sequence[tuple[Pointer, bytes]]) -> Sequence[ObjectProblem | None]:
        """Send some objects in one message."""
        imported = pb.ImportObjectsRequest.ImportedObject
        request = pb.ImportObjectsRequest(
            repository=self.name,
            origin=self._origin,
            objects=(imported(oid=pointer.oid, size=pointer.size, data=data) for pointer, data in objects),
        )
        try:
            answer = await self._admin.call(self._admin.stub.ImportObjects, request)
        except ServiceError as error:
            raise interrupted(error) from error
        return [_outcome(entry) for entry in answer.objects]


class TowpathSource:
    """A repository that objects come from."""

    def __init__(self, admin: Administration, repository: str, destination: str) -> None:
        self.name = repository
        self._admin = admin
        self.destination = destination

    async def add_all(self, spool: OidSpool) -> None:
        """Add what the repository holds."""
        request = pb.ListRepositoryObjectsRequest(repository=self.name, state=storage.OBJECT_STATE_HELD)
        async for page in pages(self._admin, self._admin.stub.ListRepositoryObjects, request):
            for held in page.objects:
                spool.add(bytes.fromhex(held.oid) + held.size.to_bytes(SIZE_BYTES))

    async def announce(self, pointers: Sequence[Pointer]) -> None:
        """Nothing is to be prepared."""

    async def read(self, pointer: Pointer) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of one object."""
        async with aclosing(exactly(pointer, self._read(pointer))) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _read(self, pointer: Pointer) -> AsyncGenerator[bytes, None]:
        request = pb.ExportObjectsRequest(
            repository=self.name, destination=self.destination[:_MAX_PLACE], oids=[pointer.oid]
        )
        try:
            async with aclosing(self._admin.stream(self._admin.stub.ExportObjects, request)) as messages:
                async for message in messages:
                    match message.WhichOneof("content"):
                        case "data":
                            yield message.data
                        case "error":
                            raise _unpacked(message.error)
        except ServiceError as error:
            raise problem_of(error) from error


def _outcome(entry: pb.ImportObjectsResponse.ImportOutcome) -> ObjectProblem | None:
    """Return what is wrong with an object. Raises `Interrupted`, and what ends the command."""
    if entry.HasField("object"):
        return None
    problem = problem_of(_unpacked(entry.error))
    if isinstance(problem, ObjectProblem):
        return problem
    raise problem


def _unpacked(packed: AnyMessage) -> ServiceError:
    status = status_pb2.Status()
    packed.Unpack(status)
    return from_status(status)


def problem_of(error: ServiceError) -> Exception:
    """Return what an error of the services means for one object; the error itself where it ends the command."""
    if error.reason in _WRONG:
        return ObjectProblem(Kind.WRONG, error.message)
    if error.reason in _GONE:
        return ObjectProblem(Kind.REFUSED if error.reason == Reason.OBJECT_REMOVED else Kind.MISSING, error.message)
    if isinstance(error, InvalidArgument | DataLoss):
        return ObjectProblem(Kind.FAILED, error.message)
    return interrupted(error)


def interrupted(error: ServiceError) -> Exception:
    """Return what an error of the services means for the next try; the error itself where a try is in vain."""
    if isinstance(error, Aborted | DeadlineExceeded | Unavailable) or error.reason == "CANCELLED":
        return Interrupted(f"Towpath: {error.message}", is_unreachable=True)
    return error
