"""A real server for Azure's blobs on a loopback port: Azurite, which `make azurite` brings from npm."""

import asyncio
import base64
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import pytest
from obstore.store import AzureStore

from services.storage.object_store.backend import ObjectStoreBackend
from services.storage.object_store.opening import open_object_store
from tests.support.ports import free_ports

_SCRIPT = Path(sys.prefix) / "azurite/node_modules/azurite/dist/src/blob/main.js"
_START_SECONDS = 60


class Azurite:
    """Its address, and one account with a key of its own."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.account = "towpathtests"
        self.key = base64.b64encode(secrets.token_bytes(64)).decode()
        self.endpoint = f"http://127.0.0.1:{self.port}/{self.account}"

    @property
    def environment(self) -> Mapping[str, str]:
        """Variables by which this account's key is found."""
        return {"AZURE_STORAGE_ACCOUNT_KEY": self.key}

    def url(self, container: str, prefix: str = "", *, endpoint: str | None = None) -> str:
        """Return the storage URL of a prefix in a container."""
        return f"az://{container}/{prefix}?account={self.account}&endpoint={endpoint or self.endpoint}"

    async def backend(self, container: str, prefix: str = "", *, endpoint: str | None = None) -> ObjectStoreBackend:
        """Open the backend, with the key that the environment has."""
        return await open_object_store(self.url(container, prefix, endpoint=endpoint))
