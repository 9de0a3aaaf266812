"""The one error type of all services, and its form on the gRPC wire.

The code that detects an error raises it as a `ServiceError`. The server's interceptor (`common.rpc.interceptors`) turns
it into a gRPC status with `google.rpc.ErrorInfo`; `from_rpc_error` rebuilds it on the client's side; the facade renders
it over HTTP.
"""

from enum import StrEnum
from typing import ClassVar

import grpc
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

_DOMAIN = "towpath"
_DETAILS_KEY = "grpc-status-details-bin"


class Reason(StrEnum):
    """The reason that a call failed, in one word that programs can rely on."""

    ACCESS_DENIED = "ACCESS_DENIED"
    BAD_CREDENTIALS = "BAD_CREDENTIALS"
    BANDWIDTH_EXCEEDED = "BANDWIDTH_EXCEEDED"
    BATCH_TOO_LARGE = "BATCH_TOO_LARGE"
    COLLECTION_RUNNING = "COLLECTION_RUNNING"
    CREDENTIALS_REQUIRED = "CREDENTIALS_REQUIRED"
    DEADLINE_EXCEEDED = "DEADLINE_EXCEEDED"
    DELIVERY_NOT_FOUND = "DELIVERY_NOT_FOUND"
    FORCE_NOT_ALLOWED = "FORCE_NOT_ALLOWED"
    FORGE_EXISTS = "FORGE_EXISTS"
    FORGE_IN_USE = "FORGE_IN_USE"
    FORGE_NOT_FOUND = "FORGE_NOT_FOUND"
    GRANT_NOT_FOUND = "GRANT_NOT_FOUND"
    GROUP_EXISTS = "GROUP_EXISTS"
    GROUP_MEMBER_NOT_FOUND = "GROUP_MEMBER_NOT_FOUND"
    GROUP_NOT_FOUND = "GROUP_NOT_FOUND"
    HASH_MISMATCH = "HASH_MISMATCH"
    HOOK_DISABLED = "HOOK_DISABLED"
    HOOK_NOT_FOUND = "HOOK_NOT_FOUND"
    INTERNAL = "INTERNAL"
    INVALID_CURSOR = "INVALID_CURSOR"
    INVALID_FIELD = "INVALID_FIELD"
    INVALID_OID = "INVALID_OID"
    INVALID_PATH = "INVALID_PATH"
    ISSUER_EXISTS = "ISSUER_EXISTS"
    ISSUER_NOT_FOUND = "ISSUER_NOT_FOUND"
    LAST_ADMINISTRATOR = "LAST_ADMINISTRATOR"
    LOCK_NOT_FOUND = "LOCK_NOT_FOUND"
    LOCK_NOT_OWNED = "LOCK_NOT_OWNED"
    MALFORMED_STREAM = "MALFORMED_STREAM"
    MAPPING_NOT_FOUND = "MAPPING_NOT_FOUND"
    MEMORY_NOT_SHARED = "MEMORY_NOT_SHARED"
    NOT_ADMINISTRATOR = "NOT_ADMINISTRATOR"
    OBJECT_DAMAGED = "OBJECT_DAMAGED"
    OBJECT_NOT_FOUND = "OBJECT_NOT_FOUND"
    OBJECT_PURGED = "OBJECT_PURGED"
    OBJECT_REMOVED = "OBJECT_REMOVED"
    OFFSET_MISMATCH = "OFFSET_MISMATCH"
    OFFSET_OUT_OF_RANGE = "OFFSET_OUT_OF_RANGE"
    PATH_LOCKED = "PATH_LOCKED"
    QUOTA_EXCEEDED = "QUOTA_EXCEEDED"
    RATE_LIMITED = "RATE_LIMITED"
    REPOSITORY_ARCHIVED = "REPOSITORY_ARCHIVED"
    REPOSITORY_EXISTS = "REPOSITORY_EXISTS"
    REPOSITORY_NOT_EMPTY = "REPOSITORY_NOT_EMPTY"
    REPOSITORY_NOT_FOUND = "REPOSITORY_NOT_FOUND"
    REQUEST_NOT_FOUND = "REQUEST_NOT_FOUND"
    SIGN_IN_UNSUPPORTED = "SIGN_IN_UNSUPPORTED"
    SIZE_MISMATCH = "SIZE_MISMATCH"
    SSH_KEY_EXISTS = "SSH_KEY_EXISTS"
    SSH_KEY_NOT_FOUND = "SSH_KEY_NOT_FOUND"
    STORAGE_FULL = "STORAGE_FULL"
    STORE_EXISTS = "STORE_EXISTS"
    STORE_INCOMPLETE = "STORE_INCOMPLETE"
    STORE_IN_USE = "STORE_IN_USE"
    STORE_NOT_FOUND = "STORE_NOT_FOUND"
    STORE_UNUSABLE = "STORE_UNUSABLE"
    TOKEN_EXISTS = "TOKEN_EXISTS"  # noqa: S105 - the name of a reason, not a secret
    TOKEN_NOT_FOUND = "TOKEN_NOT_FOUND"  # noqa: S105 - the name of a reason, not a secret
    TOO_MANY_LOCKS = "TOO_MANY_LOCKS"
    TOO_MANY_TOKENS = "TOO_MANY_TOKENS"
    TOO_MUCH_GARBAGE = "TOO_MUCH_GARBAGE"
    UNAVAILABLE = "UNAVAILABLE"
    UNIMPLEMENTED = "UNIMPLEMENTED"
    UNSUPPORTED_TOKEN_TYPE = "UNSUPPORTED_TOKEN_TYPE"  # noqa: S105 - the name of a reason, not a secret
    UPLOAD_IN_PROGRESS = "UPLOAD_IN_PROGRESS"
    USER_EXISTS = "USER_EXISTS"
    USER_HOLDS_LOCKS = "USER_HOLDS_LOCKS"
    USER_NOT_FOUND = "USER_NOT_FOUND"


class ServiceError(Exception):
    """A failure that is reported to the caller: a status, a reason, a message in lower case, metadata.

    `detail` is a message that travels with the status, such as the standing lock of a conflict, packed as
    `google.protobuf.Any`. A plain `ServiceError` is an internal error; each subclass has another status.
    """

    status: ClassVar[grpc.StatusCode] = grpc.StatusCode.INTERNAL

    def __init__(self, reason: Reason | str, message: str, *, detail: Message | None = None, **metadata: str) -> None:
        super().__init__(message)
        self.reason = str(reason)
        self.message = message
        self.detail = detail
        self.metadata = metadata


class InvalidArgument(ServiceError):
    """A field of the request is malformed; the message names it and what was expected."""

    status = grpc.StatusCode.INVALID_ARGUMENT


class Unauthenticated(ServiceError):
    """The caller is not known."""

    status = grpc.StatusCode.UNAUTHENTICATED


class PermissionDenied(ServiceError):
    """The caller is known, and may not do this."""

    status = grpc.StatusCode.PERMISSION_DENIED


class NotFound(ServiceError):
    """The resource that the request names does not exist."""

    status = grpc.StatusCode.NOT_FOUND


class AlreadyExists(ServiceError):
    """The resource that the request would create exists already."""

    status = grpc.StatusCode.ALREADY_EXISTS


class FailedPrecondition(ServiceError):
    """The state does not allow this, and a retry does not help."""

    status = grpc.StatusCode.FAILED_PRECONDITION


class OutOfRange(ServiceError):
    """An offset lies beyond the end."""

    status = grpc.StatusCode.OUT_OF_RANGE


class ResourceExhausted(ServiceError):
    """A limit is reached."""

    status = grpc.StatusCode.RESOURCE_EXHAUSTED


class Unimplemented(ServiceError):
    """The service does not know this call."""

    status = grpc.StatusCode.UNIMPLEMENTED


class Unavailable(ServiceError):
    """A dependency does not answer; it may answer later."""

    status = grpc.StatusCode.UNAVAILABLE


class Aborted(ServiceError):
    """The call lost a race and may be retried."""

    status = grpc.StatusCode.ABORTED


class DataLoss(ServiceError):
    """Data that should be there is damaged or lost."""

    status = grpc.StatusCode.DATA_LOSS


class DeadlineExceeded(ServiceError):
    """The call took too long; it may or may not have taken effect."""

    status = grpc.StatusCode.DEADLINE_EXCEEDED


_BY_STATUS: dict[grpc.StatusCode, type[ServiceError]] = {
    subclass.status: subclass for subclass in ServiceError.__subclasses__()
}

_BY_NUMBER: dict[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


def status_of(error: ServiceError) -> status_pb2.Status:
    """Return the whole error as a message."""
    status = status_pb2.Status(code=error.status.value[0], message=error.message)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason=error.reason, domain=_DOMAIN, metadata=error.metadata))
    if error.detail is not None:
        status.details.add().Pack(error.detail)
    return status


def from_status(status: status_pb2.Status, detail: Message | None = None) -> ServiceError:
    """Rebuild the error from a status, made by `status_of` or by any other server.

    If `detail` is given, a detail of the status that has its type is read into it.
    """
    code = _BY_NUMBER.get(status.code, grpc.StatusCode.UNKNOWN)
    info = error_details_pb2.ErrorInfo()
    found = None
    for packed in status.details:
        packed.Unpack(info)
        if detail is not None and packed.Unpack(detail):
            found = detail
    kind = _BY_STATUS.get(code, ServiceError)
    return kind(info.reason or code.name, status.message or code.name.lower(), detail=found, **info.metadata)


def trailing_metadata(error: ServiceError) -> tuple[tuple[str, bytes]]:
    """Return the metadata that carries the whole error beside gRPC's own code and message."""
    return ((_DETAILS_KEY, status_of(error).SerializeToString()),)


def from_rpc_error(error: grpc.aio.AioRpcError, detail: Message | None = None) -> ServiceError:
    """Rebuild the error that a service raised, or that gRPC itself detected; see `from_status`."""
    status = status_pb2.Status()
    for key, value in error.trailing_metadata() or ():
        if key == _DETAILS_KEY and isinstance(value, bytes):
            status.MergeFromString(value)
    # A proxy between client and server may have ended the call with another status.
    status.code, status.message = error.code().value[0], error.details() or ""
    return from_status(status, detail)
