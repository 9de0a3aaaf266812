"""gRPC handlers of partial uploads, and their messages."""

from collections.abc import AsyncIterator
from typing import Any

import grpc
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceServicer

from services.common.rpc.log_fields import add_log_fields
from services.storage.api.messages import timestamp
from services.storage.context import StorageContext
from services.storage.intent import Intent
from services.storage.objects.append import append_partial_upload
from services.storage.objects.partial_upload import find_partial_upload
from services.storage.uploads.append_stream import APPENDED, AppendRequest, AppendStream, partial_key


class PartialUploadCalls(StorageServiceServicer):
    """The part of StorageService that receives uploads that may break off."""

    _context: StorageContext

    def _is_resumable(self, intent: Intent) -> bool:
        """Return whether objects with this intent are taken as partial uploads."""
        is_direct = self._context.stores.primary.direct.includes(intent)
        return intent is Intent.WRITE and not is_direct and bool(self._context.partial_uploads_kept)

    async def GetPartialUpload(
        self, request: pb.GetPartialUploadRequest, _context: object
    ) -> pb.GetPartialUploadResponse:
        """Return what is kept."""
        key = partial_key(request)
        add_log_fields(objects=1)
        kept = await find_partial_upload(self._context, key)
        return pb.GetPartialUploadResponse(offset=kept.offset, expires_at=timestamp(kept.expires_at))

    async def AppendPartialUpload(
        self, request_iterator: AsyncIterator[AppendRequest], _context: object
    ) -> pb.AppendPartialUploadResponse:
        """Receive a header and then bytes."""
        stream = AppendStream(aiter(request_iterator), self._context.idle_seconds)
        try:
            kept = await append_partial_upload(self._context, stream)
        finally:
            await stream.close()
        return pb.AppendPartialUploadResponse(offset=kept.offset, expires_at=timestamp(kept.expires_at))


def append_handler(service: PartialUploadCalls) -> "dict[str, grpc.RpcMethodHandler[Any, Any]]":
    """Return the handler of AppendPartialUpload, by its name; it does not copy the bytes as the generated one does."""
    handler = grpc.stream_unary_rpc_method_handler(
        service.AppendPartialUpload,
        request_deserializer=APPENDED.parse,
        response_serializer=pb.AppendPartialUploadResponse.SerializeToString,
    )
    return {"AppendPartialUpload": handler}
