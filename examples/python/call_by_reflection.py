"""Call any unary method without stubs: the service itself tells its methods and messages (gRPC reflection).

    export TOWPATH_SERVICE_SECRET=...
    python call_by_reflection.py 127.0.0.1:9002
    python call_by_reflection.py 127.0.0.1:9002 towpath.locks.v1.LockService/ListLocks '{"repositoryId": 1}'

Without a method it lists the methods of all services. AdminService takes an administrator's token, TOWPATH_TOKEN,
in place of the secret. It is what `grpcurl -H "authorization: Bearer $TOWPATH_SERVICE_SECRET"` does.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from typing import Any, NamedTuple

import grpc
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import MessageToJson, Parse, ParseError
from google.protobuf.message import Message
from google.protobuf.message_factory import GetMessageClass
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from connection import UNARY_SECONDS, connect, metadata, run

ADMIN_SERVICE = "towpath.access.v1.AdminService"


class Details(NamedTuple):
    """What gRPC wants to know of a call."""

    method: str
    timeout: float | None
    metadata: tuple[tuple[str, str], ...]
    credentials: grpc.CallCredentials | None
    wait_for_ready: bool | None
    compression: grpc.Compression | None


class ShowSecret(grpc.StreamStreamClientInterceptor):
    """Adds metadata and a deadline to the calls of reflection, which is guarded like every service."""

    def intercept_stream_stream(self, continuation: Any, client_call_details: Any, request_iterator: Any) -> Any:
        """Make the call with them."""
        details = Details(client_call_details.method, UNARY_SECONDS, metadata(), None, True, None)
        return continuation(details, request_iterator)


def list_methods(database: ProtoReflectionDescriptorDatabase, pool: DescriptorPool) -> Iterator[str]:
    """Yield SERVICE/METHOD of everything that the server serves."""
    for service in sorted(database.get_services()):
        for method in pool.FindServiceByName(service).methods:
            yield f"{service}/{method.name}"


def call(channel: grpc.Channel, pool: DescriptorPool, name: str, request: str) -> str:
    """Call SERVICE/METHOD with a request in JSON and return the answer in JSON."""
    service, _, method_name = name.partition("/")
    try:
        method = pool.FindServiceByName(service).methods_by_name[method_name]
        message = Parse(request, GetMessageClass(method.input_type)())
    except KeyError:
        sys.exit(f"{name}: there is no such method")
    except ParseError as error:
        sys.exit(f"the request: {error}")
    if method.client_streaming or method.server_streaming:
        sys.exit(f"{name}: streams are not called here")
    invoke: grpc.UnaryUnaryMultiCallable[Message, Message] = channel.unary_unary(
        f"/{service}/{method_name}",
        request_serializer=lambda sent: sent.SerializeToString(),
        response_deserializer=GetMessageClass(method.output_type).FromString,
    )
    bearer = os.environ.get("TOWPATH_TOKEN") if service == ADMIN_SERVICE else None
    answer = invoke(message, timeout=UNARY_SECONDS, metadata=metadata(bearer), wait_for_ready=True)
    return MessageToJson(answer, always_print_fields_with_no_presence=True)


def main() -> None:
    """Do it."""
    parser = argparse.ArgumentParser(description="Call a method by reflection, or list the methods.")
    parser.add_argument("address", help="unix:PATH or HOST:PORT")
    parser.add_argument("method", nargs="?", help="SERVICE/METHOD")
    parser.add_argument("request", nargs="?", default="{}", help="the request in JSON")
    options = parser.parse_args()
    with connect(options.address) as channel:
        database = ProtoReflectionDescriptorDatabase(grpc.intercept_channel(channel, ShowSecret()))
        pool = DescriptorPool(database)
        if options.method is None:
            print("\n".join(list_methods(database, pool)))
        else:
            print(call(channel, pool, options.method, options.request))


if __name__ == "__main__":
    run(main)
