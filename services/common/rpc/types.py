"""Names for gRPC's types, which are generic for the type checker only."""

from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
else:
    Context = grpc.aio.ServicerContext
    Handler = grpc.RpcMethodHandler
