"""A facade before inner services that fail as a test tells them to: what no healthy stack can be made to do."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import access_service_pb2 as access
from towpath.locks.v1 import lock_service_pb2 as locks
from towpath.storage.v1 import storage_service_pb2 as storage

from services.common.errors import ServiceError, trailing_metadata
from tests.support.waiting import STEP_SECONDS

LOCK = locks.Lock(id="7", path="a", locked_at=Timestamp(seconds=1), owner_id=1, owner_name="zoe")
MISSING = storage.BatchStatObjectsResponse.ObjectStat(status=storage.OBJECT_STATUS_MISSING)
HEADER = storage.ReadObjectResponse(header=storage.ReadObjectResponse.Header(size=1))

_WELL: dict[str, Message] = {
    "Authenticate": access.AuthenticateResponse(user_id=1, user_name="zoe"),
    "CheckAccess": access.CheckAccessResponse(repository_id=1),
    "RecordRefusals": access.RecordRefusalsResponse(),
    "CountFailedLogins": access.CountFailedLoginsResponse(debt_seconds=[0.0]),
    "BatchStatObjects": storage.BatchStatObjectsResponse(objects=[MISSING]),
    "WriteObject": storage.WriteObjectResponse(object=storage.Object(oid="0" * 64, size=1)),
    "WriteWholeObject": storage.WriteWholeObjectResponse(object=storage.Object(oid="0" * 64, size=1)),
    "ReadObject": HEADER,
    "CreateLock": locks.CreateLockResponse(lock=LOCK),
    "ListLocks": locks.ListLocksResponse(locks=[LOCK]),
    "VerifyLocks": locks.VerifyLocksResponse(ours=[LOCK]),
    "DeleteLock": locks.DeleteLockResponse(lock=LOCK),
}


class Inner(grpc.GenericRpcHandler):
    """All inner services: every method answers well, or with its reply in `replies`, or fails as `failures` says.

    The method `held` waits until `release` is set before it answers; `reached` is set when a call of it waits.
    """

    def __init__(self) -> None:
        self.failures: dict[str, ServiceError] = {}
        self.replies: dict[str, Message] = {}
        self.held = ""
        self.reached = threading.Event()
        self.release = threading.Event()

    def reset(self) -> None:
        """Let every method answer well again."""
        self.__init__()  # type: ignore[misc] # what it is at first is what it is again

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[Any, Any]":
        """Return what serves a call, whichever it is."""
        method = handler_call_details.method.rsplit("/", 1)[1]

        def answer(_request: object, context: grpc.ServicerContext) -> Message:
            if method == self.held:
                self.reached.set()
                self.release.wait(STEP_SECONDS)
            if (error := self.failures.get(method)) is not None:
                context.set_trailing_metadata(trailing_metadata(error))
                context.abort(error.status, error.message)
            return self.replies.get(method, _WELL[method])

        def stream(request: object, context: grpc.ServicerContext) -> Iterator[Message]:
            yield answer(request, context)

        if method == "ReadObject":
            return grpc.unary_stream_rpc_method_handler(stream, response_serializer=_serialized)
        if method == "WriteObject":
            return grpc.stream_unary_rpc_method_handler(answer, response_serializer=_serialized)
        return grpc.unary_unary_rpc_method_handler(answer, response_serializer=_serialized)


def _serialized(message: Message) -> bytes:
    return message.SerializeToString()


@contextmanager
def running_facade(**settings: str) -> Iterator[tuple[str, Inner]]:
    """Run the facade's process before an `Inner`; yield its origin. `settings` are environment variables."""
    inner = Inner()
    with tempfile.TemporaryDirectory(prefix="towpath-test-") as folder, socket.socket() as listener:
        address = f"unix:{Path(folder) / 'inner.sock'}"
        server = grpc.server(ThreadPoolExecutor(16), handlers=[inner])
        server.add_insecure_port(address)
        server.start()
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        process = subprocess.Popen(
            [sys.executable, "-m", "services.facade"],
            stdout=subprocess.DEVNULL,
            pass_fds=[listener.fileno()],
            env={
                **os.environ,
                "TOWPATH_LISTEN": f"fd:{listener.fileno()}",
                "TOWPATH_STORAGE_ADDRESS": address,
                "TOWPATH_LOCKS_ADDRESS": address,
                "TOWPATH_SIGNING_KEY": os.urandom(32).hex(),
                **settings,
            },
        )
        try:
            # Requests wait in the listening socket until the facade accepts them.
            yield f"http://127.0.0.1:{listener.getsockname()[1]}", inner
        finally:
            inner.release.set()
            process.terminate()
            process.wait(STEP_SECONDS)
            server.stop(None).wait(STEP_SECONDS)
