"""gRPC servicer of StorageService. Each method translates the request, calls one function and translates the result."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import add_StorageServiceServicer_to_server

from services.common.errors import Reason, ServiceError, Unavailable, status_of
from services.common.observability.logs import get_logger
from services.common.rpc.log_fields import add_log_fields
from services.common.rpc.options import SHARED_BYTES
from services.storage import metrics, validation
from services.storage.api.garbage import GARBAGE_METHODS, GarbageCalls
from services.storage.api.messages import (
    add_stat,
    intent_of,
    listed_message,
    object_keys,
    object_message,
    order_of,
    read_bytes,
    signed_message,
    state_of,
)
from services.storage.api.partial_uploads import PartialUploadCalls, append_handler
from services.storage.api.usage_service import UsageHandlers
from services.storage.context import StorageContext
from services.storage.direct.confirm import confirm_object
from services.storage.direct.sign import sign_objects, stat_and_sign
from services.storage.intent import Intent
from services.storage.objects.bin import purge_object
from services.storage.objects.copy_between_repositories import copy_objects
from services.storage.objects.delete import delete_object, delete_repository, restore_object
from services.storage.objects.lists import list_objects
from services.storage.objects.locate import disks_of, locate_object, suffix_on_disk
from services.storage.objects.read import open_object
from services.storage.objects.write import write_object
from services.storage.objects.write_small import SmallObjectWriter
from services.storage.uploads.shared_memory import messages_of
from services.storage.uploads.stream import DATA, UploadStream, WriteRequest, bounded, header_of

SERVICE_NAME: str = pb.DESCRIPTOR.services_by_name["StorageService"].full_name

ADMIN_METHODS = [
    f"/{SERVICE_NAME}/{name}"
    for name in (
        "DeleteObject",
        "RestoreObject",
        "PurgeObject",
        "CopyObjects",
        "DeleteRepository",
        "SetLimits",
        "ListQuotaEvents",
        "AcknowledgeQuotaEvents",
        "GetUserUsage",
        "ListLimitedGroups",
        "SetLimitedGroupMembers",
        *GARBAGE_METHODS,
    )
]
"""The full names of the methods that are reserved for administration."""

_log = get_logger(__name__)

_Context = grpc.aio.ServicerContext[Any, Any]


class StorageService(GarbageCalls, PartialUploadCalls, UsageHandlers):
    """See `towpath.storage.v1.StorageService`."""

    def __init__(self, context: StorageContext, whole_objects: SmallObjectWriter) -> None:
        super().__init__(context)
        self._whole_objects = whole_objects

    async def BatchStatObjects(
        self, request: pb.BatchStatObjectsRequest, _context: _Context
    ) -> pb.BatchStatObjectsResponse:
        """Return the status of each object in the repository."""
        keys = object_keys(request.objects)
        repository_id = validation.repository_id(request.repository_id)
        intent = intent_of(request.intent)
        seconds = validation.not_negative("expires_in", request.expires_in)
        moment = self._context.removal_feed.moment() if intent is Intent.READ else None
        user_id = validation.user_id(request.user_id)
        stats, signed = await stat_and_sign(
            self._context, repository_id, keys, intent, seconds=seconds, user_id=user_id
        )
        is_signed = self._context.stores.primary.direct.includes(intent)
        response = pb.BatchStatObjectsResponse(is_signed=is_signed, is_resumable=self._is_resumable(intent))
        place = pb.BatchStatObjectsResponse.Place(**moment._asdict()) if moment is not None else None
        disks = disks_of(self._context) if moment is not None else ()
        for stat, address in zip(stats, signed, strict=True):
            if place is not None:
                place.suffix = suffix_on_disk(disks, stat.locations)
            add_stat(response, stat, address, place)
        return response

    async def SignObjectUrls(self, request: pb.SignObjectUrlsRequest, _context: _Context) -> pb.SignObjectUrlsResponse:
        """Return signed URLs of the store."""
        keys = object_keys(request.objects)
        signed = await sign_objects(
            self._context,
            validation.repository_id(request.repository_id),
            keys,
            validation.transfer(intent_of(request.intent)),
            seconds=validation.positive("expires_in", request.expires_in),
            user_id=validation.user_id(request.user_id),
        )
        return pb.SignObjectUrlsResponse(objects=map(signed_message, signed))

    async def ConfirmObject(self, request: pb.ConfirmObjectRequest, _context: _Context) -> pb.ConfirmObjectResponse:
        """Commit an object that a client has uploaded directly to the store."""
        record = await confirm_object(self._context, header_of(request))
        return pb.ConfirmObjectResponse(object=object_message(record))

    async def ReadObject(
        self, request: pb.ReadObjectRequest, _context: _Context
    ) -> AsyncIterator[pb.ReadObjectResponse]:
        """Send a header and then the bytes."""
        async with open_object(
            self._context,
            validation.repository_id(request.repository_id),
            validation.oid(request.oid),
            offset=validation.not_negative("offset", request.offset),
            length=validation.not_negative("length", request.length) if request.HasField("length") else None,
            is_counted=request.is_counted,
        ) as opened:
            yield pb.ReadObjectResponse(header=pb.ReadObjectResponse.Header(size=opened.size))
            async for chunk in opened.chunks:
                yield pb.ReadObjectResponse(data=chunk)

    async def LocateObject(self, request: pb.LocateObjectRequest, _context: _Context) -> pb.LocateObjectResponse:
        """Return the paths of an object on the disks of stores."""
        located = await locate_object(
            self._context,
            validation.repository_id(request.repository_id),
            validation.oid(request.oid),
            offset=validation.not_negative("offset", request.offset),
            length=validation.not_negative("length", request.length) if request.HasField("length") else None,
        )
        return pb.LocateObjectResponse(size=located.size, paths=located.paths)

    async def WatchRemovals(self, request: pb.WatchRemovalsRequest, _context: _Context) -> pb.WatchRemovalsResponse:
        """Wait for a removal, and return the moment since which all removals are known."""
        since = await self._context.removal_feed.watch(
            request.known_since, validation.wait_seconds(request.wait_seconds)
        )
        return pb.WatchRemovalsResponse(
            server_started=since.server_started,
            known_since=since.transaction_id,
            is_bandwidth_limited=self._context.quota.is_limited,
        )

    async def CountReads(self, request: pb.CountReadsRequest, _context: _Context) -> pb.CountReadsResponse:
        """Count bytes as read, and return the repositories that have used up today's bandwidth."""
        read = read_bytes(request)
        add_log_fields(bytes_out=sum(read.values()))
        for repository_id, count in read.items():
            self._context.quota.count(repository_id, bytes_out=count)
        try:
            used_up = await self._context.quota.used_up(read)
        except Unavailable:
            # The bytes are counted, so the call must succeed. Report every repository because the quotas are unknown.
            used_up = [*read]
        return pb.CountReadsResponse(used_up_repository_ids=used_up)

    async def WriteObject(
        self, request_iterator: AsyncIterator[WriteRequest], _context: _Context
    ) -> pb.WriteObjectResponse:
        """Receive a header and then the bytes of an object."""
        stream = UploadStream(aiter(request_iterator), self._context.idle_seconds)
        return pb.WriteObjectResponse(object=object_message(await write_object(self._context, stream)))

    async def WriteWholeObject(
        self, request: pb.WriteWholeObjectRequest, _context: _Context
    ) -> pb.WriteWholeObjectResponse:
        """Receive an object in one message."""
        add_log_fields(objects=1, bytes_in=len(request.data))
        return await self._written(request)

    async def WriteWholeObjects(
        self, request: pb.WriteWholeObjectsRequest, _context: _Context
    ) -> pb.WriteWholeObjectsResponse:
        """Receive several objects in one message."""
        add_log_fields(objects=len(request.objects), bytes_in=sum(len(write.data) for write in request.objects))
        objects = await asyncio.gather(*map(self._written_or_not, request.objects))
        return pb.WriteWholeObjectsResponse(objects=objects)

    async def _written(self, request: pb.WriteWholeObjectRequest) -> pb.WriteWholeObjectResponse:
        with metrics.decided():
            record = await self._whole_objects.write(header_of(request), bounded(request.data))
        return pb.WriteWholeObjectResponse(object=object_message(record))

    async def _written_or_not(self, request: pb.WriteWholeObjectRequest) -> pb.WriteWholeObjectResponse:
        try:
            return await self._written(request)
        except ServiceError as error:
            refused = error
        except Exception:  # one object's failure must not fail the other objects
            _log.exception("object not written", oid=request.oid)
            refused = ServiceError(Reason.INTERNAL, "internal error")
        _log.info("object not written", oid=request.oid, reason=refused.reason, message=refused.message)
        response = pb.WriteWholeObjectResponse()
        response.error.Pack(status_of(refused))
        return response

    async def WriteSharedObject(  # type: ignore[override] # stubs know only generators of responses
        self, request_iterator: AsyncIterator[pb.WriteSharedObjectRequest], context: _Context
    ) -> None:
        """Receive a header, and the bytes of an object through a file in shared memory."""

        async def answer() -> None:
            await context.write(pb.WriteSharedObjectResponse())

        async with aclosing(messages_of(aiter(request_iterator), self._context.shared_memory, answer)) as messages:
            stream = UploadStream(messages, self._context.idle_seconds, max_bytes=SHARED_BYTES)
            record = await write_object(self._context, stream)
        await context.write(pb.WriteSharedObjectResponse(object=object_message(record)))

    async def DeleteObject(self, request: pb.DeleteObjectRequest, _context: _Context) -> pb.DeleteObjectResponse:
        """Replace the object by a tombstone."""
        tombstone = await delete_object(
            self._context,
            validation.repository_id(request.repository_id),
            validation.oid(request.oid),
            reason=validation.removal_text("reason", request.reason, required=True),
            removed_by=validation.removal_text("removed_by", request.removed_by, required=False),
        )
        return pb.DeleteObjectResponse(object=object_message(tombstone))

    async def RestoreObject(self, request: pb.RestoreObjectRequest, _context: _Context) -> pb.RestoreObjectResponse:
        """Take the object out of the bin, or remove its tombstone."""
        held = await restore_object(
            self._context,
            validation.repository_id(request.repository_id),
            validation.oid(request.oid),
            bytes_required=request.bytes_required,
        )
        return pb.RestoreObjectResponse(object=None if held is None else object_message(held))

    async def PurgeObject(self, request: pb.PurgeObjectRequest, _context: _Context) -> pb.PurgeObjectResponse:
        """Take the bytes of a removed object out of the bin."""
        tombstone, repository_ids = await purge_object(
            self._context, validation.repository_id(request.repository_id), validation.oid(request.oid)
        )
        return pb.PurgeObjectResponse(object=object_message(tombstone), repository_ids=repository_ids)

    async def CopyObjects(self, request: pb.CopyObjectsRequest, _context: _Context) -> pb.CopyObjectsResponse:
        """Let another repository hold objects too."""
        copied = await copy_objects(
            self._context,
            validation.repository_id(request.repository_id),
            validation.other_repository_id(request.to_repository_id, than=request.repository_id),
            validation.oids(request.oids),
        )
        return pb.CopyObjectsResponse(
            copied_oids=copied.copied, missing_oids=copied.missing, removed_oids=copied.removed
        )

    async def DeleteRepository(
        self, request: pb.DeleteRepositoryRequest, _context: _Context
    ) -> pb.DeleteRepositoryResponse:
        """Delete all objects and tombstones of a repository from the index."""
        count = await delete_repository(self._context, validation.repository_id(request.repository_id))
        return pb.DeleteRepositoryResponse(object_count=count)

    async def ListObjects(self, request: pb.ListObjectsRequest, _context: _Context) -> pb.ListObjectsResponse:
        """Return a page of a repository's objects."""
        objects, next_cursor = await list_objects(
            self._context,
            validation.repository_id(request.repository_id),
            order=order_of(request.order),
            state=state_of(request.state),
            cursor=request.cursor,
            limit=validation.page_limit(request.limit),
        )
        return pb.ListObjectsResponse(objects=map(listed_message, objects), next_cursor=next_cursor)


def add_storage_service(context: StorageContext, whole_objects: SmallObjectWriter, server: grpc.aio.Server) -> None:
    """Register the service with a server that is not started yet."""
    service = StorageService(context, whole_objects)
    add_StorageServiceServicer_to_server(service, server)
    # Replaces the generated handler, which copies all bytes of an upload three times.
    write = grpc.stream_unary_rpc_method_handler(
        service.WriteObject,
        request_deserializer=DATA.parse,
        response_serializer=pb.WriteObjectResponse.SerializeToString,
    )
    server.add_registered_method_handlers(SERVICE_NAME, {"WriteObject": write, **append_handler(service)})
