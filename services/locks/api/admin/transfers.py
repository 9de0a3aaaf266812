"""AdminService: objects that come from another server, or go there; their bytes pass through to the storage service."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import InvalidArgument, Reason, ServiceError, status_of
from services.common.oid import is_oid
from services.common.rpc.streams import RequestStream, ending, within
from services.locks.api.admin.base import Handlers, administrator_only
from services.locks.api.token_callers import token_caller
from services.locks.audit.event_types import OBJECT_EXPORTED, OBJECT_IMPORTED
from services.locks.audit.recorder import ADMIN, acting
from services.locks.models import Repository, User
from services.locks.storage_client import WRITE_OBJECT

_MAX_OBJECTS = 1_000
_MAX_PLACE_CHARACTERS = 1_000
# A commit may have to bring many bytes to the disk.
_COMMIT_SECONDS = 60.0
_IDLE_SECONDS = 60.0


class TransferHandlers(Handlers):
    """Imports and exports objects; the audit log has one event, with the ids, for each call that moves some."""

    @administrator_only
    async def AnnounceObjects(
        self, request: pb.AnnounceObjectsRequest, _administrator: User
    ) -> pb.AnnounceObjectsResponse:
        """Return which objects a repository holds, and reserve room for the others."""
        _check_count("objects", request.objects)
        repository = await self.find_writable(request.repository)
        told = await self.storage.call(
            self.storage.objects.BatchStatObjects,
            storage.BatchStatObjectsRequest(
                repository_id=repository.id, objects=request.objects, intent=storage.INTENT_WRITE
            ),
        )
        state = pb.AnnounceObjectsResponse.ObjectState
        return pb.AnnounceObjectsResponse(
            objects=(
                state(status=found.status, size=found.size, removal_reason=found.removal_reason)
                for found in told.objects
            )
        )

    @administrator_only
    async def ImportObjects(self, request: pb.ImportObjectsRequest, _administrator: User) -> pb.ImportObjectsResponse:
        """Write small objects."""
        _check_count("objects", request.objects)
        _check_place("origin", request.origin)
        repository = await self.find_writable(request.repository)
        entries = (
            storage.WriteWholeObjectRequest(repository_id=repository.id, oid=new.oid, size=new.size, data=new.data)
            for new in request.objects
        )
        written = await self.storage.call(
            self.storage.objects.WriteWholeObjects,
            storage.WriteWholeObjectsRequest(objects=entries),
            deadline=_COMMIT_SECONDS,
        )
        await self._record_import(repository, request.origin, [entry.object.oid for entry in written.objects])
        outcome = pb.ImportObjectsResponse.ImportOutcome
        return pb.ImportObjectsResponse(
            objects=(
                outcome(object=entry.object) if entry.HasField("object") else outcome(error=entry.error)
                for entry in written.objects
            )
        )

    async def ImportObject(
        self, request_iterator: AsyncIterator[pb.ImportObjectRequest], _context: object
    ) -> pb.ImportObjectResponse:
        """Write an object piece by piece."""
        administrator = token_caller()
        requests = aiter(request_iterator)
        first = await anext(within(requests, _IDLE_SECONDS), None)
        if first is None or first.WhichOneof("content") != "header":
            raise InvalidArgument(Reason.MALFORMED_STREAM, "the first message: expected a header")
        asked = first.header
        _check_place("origin", asked.origin)
        repository = await self.find_writable(asked.repository)
        header = storage.WriteObjectRequest.Header(repository_id=repository.id, oid=asked.oid, size=asked.size)
        written = await self._write(header, requests)
        with acting(administrator.name, ADMIN):
            await self._record_import(repository, asked.origin, [written.object.oid])
        return pb.ImportObjectResponse(object=written.object)

    async def _write(
        self, header: storage.WriteObjectRequest.Header, requests: AsyncIterator[pb.ImportObjectRequest]
    ) -> storage.WriteObjectResponse:
        started: grpc.aio.StreamUnaryMultiCallable[bytes, storage.WriteObjectResponse] = (
            self.storage.channel.stream_unary(
                WRITE_OBJECT, response_deserializer=storage.WriteObjectResponse.FromString
            )
        )
        call = started(metadata=self.storage.metadata(), wait_for_ready=True)
        outgoing = RequestStream(call, _IDLE_SECONDS)
        with ending(call, self.storage):
            going = await outgoing.send(storage.WriteObjectRequest(header=header).SerializeToString())
            if going:
                async for request in within(requests, _IDLE_SECONDS):
                    if request.WhichOneof("content") != "data":
                        raise InvalidArgument(Reason.MALFORMED_STREAM, "a message after the first: expected data")
                    if not await outgoing.send(storage.WriteObjectRequest(data=request.data).SerializeToString()):
                        break
                else:
                    await outgoing.end()
            async with asyncio.timeout(_COMMIT_SECONDS):
                written: storage.WriteObjectResponse = await call
        return written

    async def ExportObjects(
        self, request: pb.ExportObjectsRequest, _context: object
    ) -> AsyncIterator[pb.ExportObjectsResponse]:
        """Send objects, each as a header and its bytes."""
        administrator = token_caller()
        _check_count("oids", request.oids)
        _check_place("destination", request.destination)
        if not all(map(is_oid, request.oids)):
            raise InvalidArgument(Reason.INVALID_OID, "oids: expected 64 lower-case hexadecimal digits each")
        if request.offset and len(request.oids) != 1:
            raise InvalidArgument(Reason.INVALID_FIELD, "offset: expected one object with it")
        repository = await self.find_repository(request.repository)
        with acting(administrator.name, ADMIN):
            await self.audit(
                OBJECT_EXPORTED,
                subject=f"objects to {request.destination}",
                repository=repository.name,
                after={"to": request.destination, "oids": list(request.oids)},
            )
        for oid in request.oids:
            async with aclosing(self._read(repository, oid, request.offset)) as messages:
                async for message in messages:
                    yield message

    async def _read(
        self, repository: Repository, oid: str, offset: int
    ) -> AsyncGenerator[pb.ExportObjectsResponse, None]:
        """Yield the messages of one object; an error of the storage service is the last of them."""
        asked = storage.ReadObjectRequest(repository_id=repository.id, oid=oid, offset=offset)
        call = self.storage.objects.ReadObject(asked, metadata=self.storage.metadata(), wait_for_ready=True)
        header = pb.ExportObjectsResponse.Header(oid=oid)
        is_told = False
        try:
            with ending(call, self.storage):
                while True:
                    async with asyncio.timeout(self.storage.deadline):
                        message = await call.read()
                    if not isinstance(message, storage.ReadObjectResponse):
                        return
                    if not is_told:
                        header.size = message.header.size
                        is_told = True
                        yield pb.ExportObjectsResponse(header=header)
                    else:
                        yield pb.ExportObjectsResponse(data=message.data)
        except ServiceError as error:
            packed = AnyMessage()
            packed.Pack(status_of(error))
            if not is_told:
                yield pb.ExportObjectsResponse(header=header)
            yield pb.ExportObjectsResponse(error=packed)

    async def _record_import(self, repository: Repository, origin: str, oids: Sequence[str]) -> None:
        if imported := [oid for oid in oids if oid]:
            await self.audit(
                OBJECT_IMPORTED,
                subject=f"objects of {origin}",
                repository=repository.name,
                after={"from": origin, "oids": imported},
            )


def _check_count(field: str, entries: Sequence[object]) -> None:
    if not 0 < len(entries) <= _MAX_OBJECTS:
        raise InvalidArgument(Reason.BATCH_TOO_LARGE, f"{field}: expected 1 to {_MAX_OBJECTS}, got {len(entries)}")


def _check_place(field: str, text: str) -> None:
    if not 0 < len(text) <= _MAX_PLACE_CHARACTERS or "\0" in text:
        message = f"{field}: expected 1 to {_MAX_PLACE_CHARACTERS} characters without NUL"
        raise InvalidArgument(Reason.INVALID_FIELD, message)
