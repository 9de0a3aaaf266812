"""A storage service that signs addresses of a real S3 server, and clients that use them."""

import itertools
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
from pydantic import SecretStr
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.backends.object_store.backend import ObjectStoreBackend
from services.storage.backends.object_store.opening import open_object_store
from tests.support.seaweedfs import SeaweedFS
from tests.support.storage import RunningStorage, oid_of, running_storage
from tests.support.waiting import STEP_SECONDS, until

SignedUrl = pb.SignObjectUrlsResponse.SignedUrl

_repositories = itertools.count(1)


@dataclass
class DirectStorage:
    """The service, the prefix of its objects, and a client of HTTP."""

    service: RunningStorage
    backend: ObjectStoreBackend
    database_url: SecretStr
    http: httpx.AsyncClient

    async def found_and_signed(
        self, repository_id: int, *objects: tuple[str, int], intent: "pb.Intent.ValueType", seconds: int = 60
    ) -> list[pb.BatchStatObjectsResponse.ObjectStat]:
        """Ask what is held, and for addresses with it."""
        return list((await self.service.stat(repository_id, *objects, intent=intent, seconds=seconds)).objects)

    async def sign(
        self, repository_id: int, *objects: tuple[str, int], intent: "pb.Intent.ValueType", seconds: int = 60
    ) -> list[SignedUrl]:
        """Ask for addresses."""
        keys = [pb.SignObjectUrlsRequest.ObjectKey(oid=oid, size=size) for oid, size in objects]
        request = pb.SignObjectUrlsRequest(repository_id=repository_id, intent=intent, objects=keys, expires_in=seconds)
        return list((await self.service.stub.SignObjectUrls(request, timeout=STEP_SECONDS)).objects)

    async def upload_url(self, repository_id: int, data: bytes, *, seconds: int = 60) -> SignedUrl:
        """Ask for the address of an upload."""
        [signed] = await self.sign(repository_id, (oid_of(data), len(data)), intent=pb.INTENT_WRITE, seconds=seconds)
        assert signed.url
        return signed

    async def put(self, signed: SignedUrl, body: bytes) -> int:
        """Put bytes to an address as it says, and return the status."""
        return (await self.http.put(signed.url, content=body, headers=dict(signed.headers))).status_code

    async def confirm(self, repository_id: int, data: bytes, *, size: int | None = None, user_id: int = 0) -> pb.Object:
        """Say that an object was brought, in its size or another one."""
        request = pb.ConfirmObjectRequest(
            repository_id=repository_id, oid=oid_of(data), size=len(data) if size is None else size, user_id=user_id
        )
        return (await self.service.stub.ConfirmObject(request, timeout=STEP_SECONDS)).object

    async def bring(self, repository_id: int, data: bytes) -> str:
        """Upload an object directly, and return its oid."""
        assert await self.put(await self.upload_url(repository_id, data), data) == 200
        assert (await self.confirm(repository_id, data)).oid == oid_of(data)
        return oid_of(data)

    async def stored(self, data: bytes) -> list[str]:
        """Return the names under which there are bytes of an object."""
        return [name async for name, _ in self.backend.list_blobs() if name.startswith(oid_of(data))]

    async def wait_signing(self, *intents: "pb.Intent.ValueType") -> None:
        """Wait until the probe has passed."""

        async def signs() -> bool:
            return all([(await self.service.stat(1, intent=intent)).is_signed for intent in intents])

        await until(signs)


def new_repository() -> int:
    """Return an id that no other test has."""
    return next(_repositories)


def some_bytes(size: int = 1000) -> bytes:
    """Return bytes that no other test has."""
    return secrets.token_bytes(size)


@asynccontextmanager
async def direct_storage(
    server: SeaweedFS,
    database_url: SecretStr,
    folder: Path,
    *,
    endpoint: str | None = None,
    **settings: Any,  # noqa: ANN401 - the settings of the service, which checks them
) -> AsyncIterator[DirectStorage]:
    """Run a service whose transfers are direct, where the store is suitable; the probe may still go on."""
    prefix = f"direct-{secrets.token_hex(4)}"
    values = {"storage_transfer": "direct", "storage_url": server.url(prefix, endpoint=endpoint), **settings}
    async with (
        httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http,
        running_storage(database_url, folder, **values) as service,
    ):
        yield DirectStorage(service, await open_object_store(server.url(prefix)), database_url, http)
