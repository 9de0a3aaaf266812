"""A real storage service, in this process or in its own, on a unix socket and a real Postgres."""

import asyncio
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb
from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceStub

from services.common.errors import ServiceError, from_rpc_error
from services.common.rpc.client import connect
from services.common.rpc.options import CHUNK_BYTES
from services.common.rpc.streams import RequestStream
from services.storage.api.storage_service import SERVICE_NAME
from services.storage.application import serve
from services.storage.backends.base import Backend
from services.storage.blob_names import oid_of as oid_in
from services.storage.settings import StorageSettings
from tests.support.commands import Forked
from tests.support.health import wait_serving
from tests.support.waiting import STEP_SECONDS

if TYPE_CHECKING:  # the stubs of the stubs know it, and they alone
    from towpath.storage.v1.storage_service_pb2_grpc import StorageServiceAsyncStub

WriteCall = grpc.aio.StreamUnaryCall[pb.WriteObjectRequest, pb.WriteObjectResponse]


def oid_of(data: bytes) -> str:
    """Return the oid of bytes."""
    return hashlib.sha256(data).hexdigest()


def chunks_of(data: bytes, length: int = CHUNK_BYTES) -> Iterable[bytes]:
    """Cut bytes into pieces."""
    return (data[start : start + length] for start in range(0, len(data), length))


def upload(
    repository_id: int, oid: str, size: int, chunks: Iterable[bytes], *, user_id: int = 0
) -> Iterator[pb.WriteObjectRequest]:
    """Return the messages of an upload."""
    header = pb.WriteObjectRequest.Header(repository_id=repository_id, oid=oid, size=size, user_id=user_id)
    yield pb.WriteObjectRequest(header=header)
    for chunk in chunks:
        yield pb.WriteObjectRequest(data=chunk)


async def failure(call: Awaitable[object]) -> ServiceError:
    """Return the error that a call fails with."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value)


async def refusal(call: Awaitable[object]) -> ServiceError | None:
    """Return the error that a call fails with; None if it succeeds."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error)
    return None


async def finish(call: WriteCall, *messages: pb.WriteObjectRequest) -> pb.Object:
    """Send the rest of an upload that `StorageClient.begin` has begun, and return its record."""
    for message in messages:
        await call.write(message)
    await call.done_writing()
    return (await call).object


def stored_path(root: Path, oid: str) -> Path:
    """Return the newest file of an object below the root of a disk backend; a path without one where there is none."""
    folder = root / "objects" / oid[:2] / oid[2:4]
    return max(folder.glob(f"{oid}*"), key=_modified, default=folder / oid)


def _modified(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns
    except FileNotFoundError:
        # One that is just being removed is none.
        return 0


class StorageClient:
    """A storage service as its callers see it, and where its bytes lie."""

    def __init__(self, folder: Path) -> None:
        self.root = folder / "bytes"
        self.address = f"unix:{folder / 'storage.sock'}"
        self.channel = connect(self.address)
        self.stub: StorageServiceAsyncStub = StorageServiceStub(self.channel)
        self._write_object: grpc.aio.StreamUnaryMultiCallable[bytes, pb.WriteObjectResponse]
        self._write_object = self.channel.stream_unary(
            f"/{SERVICE_NAME}/WriteObject", response_deserializer=pb.WriteObjectResponse.FromString
        )

    async def write(
        self, repository_id: int, data: bytes, *, oid: str | None = None, streamed: bool = False, user_id: int = 0
    ) -> str:
        """Write an object and return its oid; in one message where it fits in one, unless it shall be streamed.

        The oid is that of the data, unless the test has another.
        """
        oid = oid or oid_of(data)
        if len(data) <= CHUNK_BYTES and not streamed:
            message = pb.WriteWholeObjectRequest(
                repository_id=repository_id, oid=oid, size=len(data), data=data, user_id=user_id
            )
            await self.stub.WriteWholeObject(message, timeout=STEP_SECONDS)
            return oid
        # As the facade writes: gRPC's own loop over messages hides why the service refused amid them.
        call = self._write_object(timeout=STEP_SECONDS)
        outgoing = RequestStream(call, STEP_SECONDS)
        for part in upload(repository_id, oid, len(data), chunks_of(data), user_id=user_id):
            if not await outgoing.send(part.SerializeToString()):
                break
        else:
            await outgoing.end()
        await call
        return oid

    async def begin(self, *messages: pb.WriteObjectRequest) -> WriteCall:
        """Begin an upload with these messages, which are on their way when this returns."""
        call: WriteCall = self.stub.WriteObject(timeout=STEP_SECONDS)
        for message in messages:
            await call.write(message)
        return call

    async def read(self, repository_id: int, oid: str, *, offset: int = 0, length: int | None = None) -> bytes:
        """Read an object, or a part of it."""
        request = pb.ReadObjectRequest(repository_id=repository_id, oid=oid, offset=offset, length=length)
        return b"".join([response.data async for response in self.stub.ReadObject(request, timeout=STEP_SECONDS)])

    async def stat(
        self,
        repository_id: int,
        *objects: tuple[str, int],
        intent: "pb.Intent.ValueType" = pb.INTENT_UNSPECIFIED,
        seconds: int = 0,
        user_id: int = 0,
    ) -> pb.BatchStatObjectsResponse:
        """Ask what is held of objects, each an oid and a size."""
        keys = [pb.BatchStatObjectsRequest.ObjectKey(oid=oid, size=size) for oid, size in objects]
        request = pb.BatchStatObjectsRequest(
            repository_id=repository_id, objects=keys, intent=intent, expires_in=seconds, user_id=user_id
        )
        return await self.stub.BatchStatObjects(request, timeout=STEP_SECONDS)

    async def statuses(self, repository_id: int, *oids: str) -> list["pb.ObjectStatus.ValueType"]:
        """Return whether the repository holds the objects."""
        return [answer.status for answer in (await self.stat(repository_id, *((oid, 0) for oid in oids))).objects]

    async def delete(self, repository_id: int, oid: str, *, reason: str = "no reason") -> pb.Object:
        """Remove an object and return its tombstone."""
        request = pb.DeleteObjectRequest(repository_id=repository_id, oid=oid, reason=reason, removed_by="alice")
        return (await self.stub.DeleteObject(request, timeout=STEP_SECONDS)).object

    async def purge(self, repository_id: int, oid: str) -> pb.PurgeObjectResponse:
        """Take the bytes of a removed object out of the bin."""
        request = pb.PurgeObjectRequest(repository_id=repository_id, oid=oid)
        return await self.stub.PurgeObject(request, timeout=STEP_SECONDS)

    async def restore(self, repository_id: int, oid: str, *, bytes_required: bool = True) -> pb.RestoreObjectResponse:
        """Bring a removed object back."""
        request = pb.RestoreObjectRequest(repository_id=repository_id, oid=oid, bytes_required=bytes_required)
        return await self.stub.RestoreObject(request, timeout=STEP_SECONDS)

    async def announce(
        self, repository_id: int, *objects: tuple[str, int], seconds: int = 600, user_id: int = 0
    ) -> pb.BatchStatObjectsResponse:
        """Announce the upload of objects, each an oid and a size."""
        return await self.stat(repository_id, *objects, intent=pb.INTENT_WRITE, seconds=seconds, user_id=user_id)

    async def records(self, repository_id: int, *, limit: int = 1000) -> list[pb.Object]:
        """Return the first records of a repository, by oid."""
        request = pb.ListObjectsRequest(repository_id=repository_id, limit=limit)
        return list((await self.stub.ListObjects(request, timeout=STEP_SECONDS)).objects)

    async def copy(self, source: int, target: int, *oids: str) -> pb.CopyObjectsResponse:
        """Let a repository hold objects of another one."""
        request = pb.CopyObjectsRequest(repository_id=source, to_repository_id=target, oids=oids)
        return await self.stub.CopyObjects(request, timeout=STEP_SECONDS)

    async def delete_repository(self, repository_id: int) -> int:
        """Forget a repository and return how many objects it held."""
        request = pb.DeleteRepositoryRequest(repository_id=repository_id)
        return (await self.stub.DeleteRepository(request, timeout=STEP_SECONDS)).object_count

    async def usage(self, repository_id: int, *, largest: int = 0) -> pb.RepositoryUsage:
        """Return the usage of a repository."""
        request = pb.GetUsageRequest(repository_ids=[repository_id], largest=largest)
        return (await self.stub.GetUsage(request, timeout=STEP_SECONDS)).repositories[0]

    async def limit(
        self,
        repository_id: int = 0,
        *,
        quota: int | None = None,
        bandwidth: int | None = None,
        user_id: int = 0,
        group_id: int = 0,
    ) -> pb.SetLimitsResponse:
        """Set limits of a repository, a user or a group."""
        request = pb.SetLimitsRequest(
            repository_id=repository_id,
            quota_bytes=quota,
            bandwidth_bytes=bandwidth,
            user_id=user_id,
            group_id=group_id,
        )
        return await self.stub.SetLimits(request, timeout=STEP_SECONDS)

    def path(self, oid: str) -> Path:
        """Return where an object's bytes lie; a path that does not exist where there are none."""
        return stored_path(self.root, oid)

    def incoming(self) -> list[Path]:
        """Return the files of uploads that go on, or were left."""
        return sorted((self.root / "incoming").iterdir())

    def files(self) -> list[Path]:
        """Return all files below the root but the journal's, those of uploads that go on included."""
        return sorted(path for path in self.root.glob("[!j]*/**/*") if path.is_file())

    def oids(self) -> list[str]:
        """Return the oids that the names of all these files begin with."""
        return [oid_in(path.name) for path in self.files()]

    def segments(self) -> list[Path]:
        """Return the files of the journal."""
        return sorted((self.root / "journal").iterdir())


class RunningStorage(StorageClient):
    """A storage service that runs in this process."""


@asynccontextmanager
async def running_storage(
    database_url: SecretStr,
    folder: Path,
    *,
    backend: Backend | None = None,
    **settings: Any,  # noqa: ANN401 - the settings of the service, which checks them
) -> AsyncIterator[RunningStorage]:
    """Run a storage service on `folder`/storage.sock with its bytes in `folder`/bytes; it is SERVING."""
    stop = asyncio.Event()
    running = RunningStorage(folder)
    values = {
        "storage_listen": running.address,
        "storage_url": running.root.as_uri(),
        "storage_database_url": database_url,
        "storage_reserve_bytes": 0,
        # A test keeps its stores wherever it has a folder.
        "storage_folders": "/",
        "drain_seconds": 0.5,
        **settings,
    }
    server = asyncio.create_task(serve(StorageSettings.model_validate(values), stop, backend=backend))
    try:
        ready = asyncio.create_task(wait_serving(running.channel, SERVICE_NAME))
        await asyncio.wait({server, ready}, return_when=asyncio.FIRST_COMPLETED)
        if server.done():
            ready.cancel()
            await server
        await ready
        yield running
    finally:
        await running.channel.close()
        stop.set()
        await server


@asynccontextmanager
async def two_storages(
    database_url: SecretStr,
    folder: Path,
    **settings: Any,  # noqa: ANN401 - the settings of the service, which checks them
) -> AsyncIterator[list[RunningStorage]]:
    """Run two services on one database and one disk."""
    folders = folder / "first", folder / "second"
    (folder / "bytes").mkdir()
    for each in folders:
        each.mkdir()
        (each / "bytes").symlink_to(folder / "bytes")
    async with (
        running_storage(database_url, folders[0], **settings) as first,
        running_storage(database_url, folders[1], **settings) as second,
    ):
        yield [first, second]


@dataclass
class StorageProcess:
    """A storage service as a process of its own that can be killed and started again."""

    database_url: SecretStr
    folder: Path
    overrides: dict[str, str] = field(default_factory=dict)
    process: Forked | subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> dict[str, str]:
        """The settings of the process."""
        return {
            **os.environ,
            "TOWPATH_STORAGE_LISTEN": f"unix:{self.folder / 'storage.sock'}",
            "TOWPATH_STORAGE_URL": (self.folder / "bytes").as_uri(),
            "TOWPATH_STORAGE_DATABASE_URL": self.database_url.get_secret_value(),
            "TOWPATH_STORAGE_RESERVE_BYTES": "0",
            "TOWPATH_STORAGE_FOLDERS": "/",
            **self.overrides,
        }

    def run(self, *arguments: str) -> Forked:
        """Start the module `services.storage` with these arguments; its log is appended to `folder`/log."""
        return Forked(["services.storage", *arguments], self.folder / "log", env=self.environment)

    async def start(self) -> None:
        """Start the service and wait until it is SERVING."""
        if "LD_PRELOAD" in self.overrides:
            with (self.folder / "log").open("ab") as output:
                # A forked process has loaded its libraries before.
                self.process = subprocess.Popen(  # noqa: ASYNC220 - it takes no time
                    [sys.executable, "-m", "services.storage"], env=self.environment, stdout=output, stderr=output
                )
        else:
            self.process = self.run()
        channel = connect(f"unix:{self.folder / 'storage.sock'}")
        try:
            await wait_serving(channel, SERVICE_NAME)
        finally:
            await channel.close()

    async def stop(self, signal_number: signal.Signals = signal.SIGKILL) -> int:
        """End the process with a signal and return its exit status."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(signal_number)
        return await asyncio.to_thread(self.process.wait, STEP_SECONDS)
