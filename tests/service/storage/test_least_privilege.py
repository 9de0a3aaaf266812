"""Credentials that allow what docs/operations.md names, and nothing more; all tests use SeaweedFS with such ones."""

import base64
import hashlib
import hmac
import os
import secrets
from datetime import UTC, datetime, timedelta
from urllib.parse import urlencode

import pytest

from services.common.errors import Unavailable
from services.common.rpc.options import CHUNK_BYTES
from services.storage.backends.base import BytesMissing
from services.storage.backends.object_store.opening import open_object_store
from services.storage.blob_names import new_name
from tests.service.storage.test_backend_suite import put
from tests.support.azurite import CONTAINER, Azurite
from tests.support.storage import chunks_of, oid_of

_VERSION = "2022-11-02"


def _sas(azurite: Azurite, permissions: str) -> str:
    """Return a shared access signature for the container alone, as `az storage container generate-sas` makes it."""
    expiry = f"{datetime.now(UTC) + timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"
    resource = f"/blob/{azurite.account}/{CONTAINER}"
    fields = [permissions, "", expiry, resource, "", "", "", _VERSION, "c", "", "", "", "", "", "", ""]
    digest = hmac.digest(base64.b64decode(azurite.key), "\n".join(fields).encode(), hashlib.sha256)
    signature = base64.b64encode(digest).decode()
    return urlencode({"sp": permissions, "se": expiry, "sv": _VERSION, "sr": "c", "sig": signature})


@pytest.mark.drill
async def test_azure_takes_a_signature_for_one_container(azurite: Azurite, monkeypatch: pytest.MonkeyPatch) -> None:
    """To read, write, delete and list is enough for whole objects, for those in parts, and to take both away."""
    monkeypatch.delenv("AZURE_STORAGE_ACCOUNT_KEY")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", _sas(azurite, "rwdl"))
    prefix = f"sas-{secrets.token_hex(4)}"
    backend = await open_object_store(azurite.url(prefix))
    await backend.check()
    names = {}
    for size in (1000, 12 * CHUNK_BYTES + 1):
        data = os.urandom(size)
        name = await put(backend, data)
        names[name] = size
        async with backend.open(name) as stored:
            assert b"".join([chunk async for chunk in stored.chunks(500, size - 500)]) == data[500:]
    assert await backend.stat(names) == names
    assert {name: size async for name, size in backend.list_blobs()} == names
    half = new_name(oid_of(b"half"))
    async with backend.create(half, 20 * CHUNK_BYTES) as upload:
        for chunk in chunks_of(os.urandom(11 * CHUNK_BYTES)):
            await upload.write(chunk)
    for name in (*names, half):
        await backend.delete(name)
        with pytest.raises(BytesMissing):
            async with backend.open(name):
                raise AssertionError("it is there")
    assert {name async for name, _ in backend.list_blobs()} == set()
    assert not await azurite.uncommitted(f"{prefix}/objects/{half[:2]}/{half[2:4]}/{half}")
    monkeypatch.setenv("AZURE_STORAGE_SAS_TOKEN", _sas(azurite, "rdl"))
    with pytest.raises(Unavailable, match="does not accept the credentials"):
        await put(await open_object_store(azurite.url(prefix)), b"more")
