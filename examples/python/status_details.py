"""What a failed call of Towpath says besides its status and message: a reason, and at times a message more.

It needs the package grpcio-status, which brings `google.rpc`.
"""

from typing import TypeVar

import grpc
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo  # type: ignore[import-untyped] # the package has no types
from grpc_status import rpc_status

Detail = TypeVar("Detail", bound=Message)


def detail(error: grpc.RpcError, wanted: Detail) -> Detail:
    """Read the detail of this type into `wanted` and return it; it stays empty where there is none."""
    status = rpc_status.from_call(error) if isinstance(error, grpc.Call) else None
    if status is not None:
        for packed in status.details:
            packed.Unpack(wanted)
    return wanted


def reason(error: grpc.RpcError) -> str:
    """Return the reason, such as PATH_LOCKED, or an empty string where gRPC itself failed."""
    info = detail(error, ErrorInfo())
    return str(info.reason) if info.domain == "towpath" else ""
