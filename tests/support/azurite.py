"""A real server for Azure's blobs on a loopback port: Azurite, which `make programs` brings from npm."""

import asyncio
import base64
import hashlib
import hmac
import os
import secrets
import shutil
import subprocess
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import httpx

from services.storage.backends.object_store.backend import ObjectStoreBackend
from services.storage.backends.object_store.opening import open_object_store
from tests.support.ports import free_ports
from tests.support.programs import AZURITE, needed
from tests.support.waiting import START_SECONDS, STEP_SECONDS, until

CONTAINER = "objects"


class Azurite:
    """Its address, one account with a key of its own, and a container `objects`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (self.port,) = free_ports(1)
        self.account = "towpathtests"
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self.endpoint = f"http://127.0.0.1:{self.port}/{self.account}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which this account's key is found."""
        return {"AZURE_STORAGE_ACCOUNT_KEY": self.key}

    def url(self, prefix: str = "") -> str:
        """Return the storage URL of a prefix in the container."""
        return f"az://{CONTAINER}/{prefix}?account={self.account}&endpoint={self.endpoint}"

    async def backend(self, prefix: str = "") -> ObjectStoreBackend:
        """Open the backend, with the key that the environment has."""
        return await open_object_store(self.url(prefix))

    async def uncommitted(self, key: str) -> bool:
        """Tell whether the container has a blob of this name, be it only blocks that were never put together."""
        query = {"restype": "container", "comp": "list", "include": "uncommittedblobs", "prefix": key}
        response = await self._request("GET", f"/{CONTAINER}", query)
        assert response.status_code == 200, response.text
        return f"<Name>{key}</Name>" in response.text

    async def _request(self, method: str, path: str, query: Mapping[str, str]) -> httpx.Response:
        headers = {"x-ms-date": f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S} GMT", "x-ms-version": "2024-11-04"}
        lines = [method, *[""] * 11, *(f"{name}:{value}" for name, value in sorted(headers.items()))]
        lines.append(f"/{self.account}/{self.account}{path}")
        lines.extend(f"{name}:{value}" for name, value in sorted(query.items()))
        digest = hmac.digest(base64.b64decode(self.key), "\n".join(lines).encode(), hashlib.sha256)
        headers["Authorization"] = f"SharedKey {self.account}:{base64.b64encode(digest).decode()}"
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            return await http.request(method, f"{self.endpoint}{path}", params=query, headers=headers)

    async def start(self) -> asyncio.subprocess.Process:
        """Start it; it takes blobs when this returns."""
        node = shutil.which("node")
        assert node is not None
        command = [node, str(AZURITE), f"--blobPort={self.port}", f"--location={self.folder}"]
        process = await asyncio.create_subprocess_exec(
            *command,
            "--silent",
            "--disableTelemetry",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env=os.environ | {"AZURITE_ACCOUNTS": f"{self.account}:{self.key}"},
        )
        await until(lambda: self._answers(process), "Azurite answers", seconds=START_SECONDS)
        response = await self._request("PUT", f"/{CONTAINER}", {"restype": "container"})
        assert response.status_code == 201, response.text
        return process

    async def _answers(self, process: asyncio.subprocess.Process) -> bool:
        assert process.returncode is None
        try:
            return (await self._request("GET", "/", {"comp": "list"})).status_code == 200
        except httpx.TransportError:
            return False


@asynccontextmanager
async def running_azurite(folder: Path) -> AsyncIterator[Azurite]:
    """Run one that keeps its data in a folder; skip the test where it is not here."""
    needed("azurite")
    server = Azurite(folder)
    process = await server.start()
    try:
        yield server
    finally:
        process.kill()
        await process.wait()
