"""Aliases of gRPC types that are generic only for the type checker."""

from typing import TYPE_CHECKING, Any

import grpc

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[Any, Any]
    Handler = grpc.RpcMethodHandler[Any, Any]
else:
    Context = grpc.aio.ServicerContext
    Handler = grpc.RpcMethodHandler
