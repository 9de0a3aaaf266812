"""The probe: what a store does not do as it must is relayed, and the log says why."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs
from towpath.storage.v1 import storage_service_pb2 as pb

from services.storage.direct import probe, prober
from tests.support.direct import DirectStorage, direct_storage, some_bytes
from tests.support.seaweedfs import SeaweedFS
from tests.support.storage import oid_of, running_storage
from tests.support.store_proxy import StoreProxy, store_proxy
from tests.support.waiting import until, until_answer

READ, WRITE = pb.INTENT_READ, pb.INTENT_WRITE
SIGNED_PUT, SIGNED_GET = re.compile("^PUT .*X-Amz-Signature"), re.compile("^GET .*X-Amz-Signature")
# The addresses that the probe lets end.
BRIEF_PUT, BRIEF_GET = re.compile("^PUT .*X-Amz-Expires=1&"), re.compile("^GET .*X-Amz-Expires=1&")
ANY_HEAD = re.compile("^HEAD ")

Starting = Callable[..., AbstractAsyncContextManager[DirectStorage]]


@pytest.fixture
async def proxy(seaweedfs: SeaweedFS) -> AsyncIterator[StoreProxy]:
    """The way to the store."""
    async with store_proxy(seaweedfs.port) as running:
        yield running


@pytest.fixture
def starting(seaweedfs: SeaweedFS, proxy: StoreProxy, database_url: SecretStr, tmp_path: Path) -> Starting:
    """Return what starts a service whose store is behind the proxy."""
    return partial(direct_storage, seaweedfs, database_url, tmp_path, endpoint=f"http://{proxy.address}")


def _relayed(logs: list[Any]) -> dict[str, str]:
    return {line["direction"]: line["why"] for line in logs if line["event"] == "bytes are relayed"}


async def _moves_by_relay(direct: DirectStorage) -> None:
    """See that bytes go through the service, and no address is signed."""
    data = some_bytes()
    [address] = await direct.sign(1, (oid_of(data), len(data)), intent=WRITE)
    assert not address.url
    [found] = await direct.found_and_signed(1, (oid_of(data), len(data)), intent=WRITE)
    assert not found.HasField("signed")
    oid = await direct.service.write(1, data)
    assert await direct.service.read(1, oid) == data


@pytest.mark.parametrize(
    ("only", "status", "direction", "why"),
    [
        (SIGNED_PUT, 200, "uploads", "the store is unsuitable: it takes other bytes (200)"),
        (SIGNED_GET, 200, "downloads", "the store is unsuitable: it does not answer a range with 206 (200)"),
        (SIGNED_GET, 403, "downloads", "the store is unsuitable: it does not answer a range with 206 (403)"),
        (ANY_HEAD, 200, "uploads", "the store is unsuitable: it keeps other bytes that it refuses"),
        (BRIEF_GET, 200, "downloads", "the store is unsuitable: it answers after the end of an address"),
        (BRIEF_PUT, 200, "uploads", "the store is unsuitable: it answers after the end of an address"),
        (SIGNED_PUT, 503, "uploads", "the store could not be probed: RemoteProtocolError"),
    ],
)
async def test_a_store_that_is_unsuitable(
    only: re.Pattern[str],
    status: int,
    direction: str,
    why: str,
    starting: Starting,
    proxy: StoreProxy,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that takes what it is sent, has no ranges, refuses, keeps what it refuses, knows no time, or fails."""
    monkeypatch.setattr(probe, "_CLOCK_SECONDS", 3)
    proxy.answer, proxy.answer_only = (status, b""), only
    with capture_logs() as logs:
        async with starting() as direct:
            await direct.wait_signing(READ if direction == "uploads" else WRITE)
            await until(lambda: direction in _relayed(logs))
            if direction == "uploads":
                await _moves_by_relay(direct)
    assert _relayed(logs) == {direction: why}
    assert "X-Amz-Signature" not in str(logs)


async def test_a_way_that_changes_bytes(starting: Starting, proxy: StoreProxy) -> None:
    """The right bytes are refused then."""
    proxy.damaging = True
    with capture_logs() as logs:
        async with starting(storage_transfer="download=relay,upload=direct") as direct:
            await until(lambda: bool(_relayed(logs)))
            proxy.damaging = False
            await _moves_by_relay(direct)
    assert _relayed(logs) == {"uploads": "the store is unsuitable: it refuses the right bytes (400)"}


async def test_it_is_probed_until_it_passes(
    starting: Starting, proxy: StoreProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One warning however often; then direct, and nothing of the probes stays in the store."""
    monkeypatch.setattr(prober, "_UNTIL_PASSED_SECONDS", 0.1)
    proxy.answer, proxy.answer_only = (200, b""), SIGNED_PUT
    with capture_logs() as logs:
        async with starting() as direct:
            await until(lambda: sum(map(bool, map(SIGNED_PUT.search, proxy.requests))) >= 3)
            proxy.answer = None
            await direct.wait_signing(WRITE, READ)

            async def names() -> list[str]:
                return [name async for name, _ in direct.backend.list_blobs()]

            await until_answer([], names)
    assert [line["event"] for line in logs].count("bytes are relayed") == 1


async def test_no_probe_where_all_is_relayed(seaweedfs: SeaweedFS, starting: Starting, proxy: StoreProxy) -> None:
    """`auto` relays where the address of the store may be this network's own; a public one makes it direct."""
    async with starting(storage_transfer="auto") as direct:
        await _moves_by_relay(direct)
        for intent in (READ, WRITE):
            assert not (await direct.service.stat(1, intent=intent)).is_signed
    assert not any("X-Amz-Signature" in line for line in proxy.requests)
    async with starting(storage_transfer="auto", storage_public_endpoint=seaweedfs.endpoint) as direct:
        await direct.wait_signing(READ, WRITE)
        proxy.requests.clear()
        data = some_bytes()
        signed = await direct.upload_url(1, data)
        assert signed.url.startswith(f"{seaweedfs.endpoint}/")
        assert await direct.put(signed, data) == 200
        assert not any(oid_of(data) in line for line in proxy.requests)
        await direct.confirm(1, data)
        assert any(line.startswith("HEAD ") and oid_of(data) in line for line in proxy.requests)


async def test_a_batch_makes_no_request_to_the_store(starting: Starting, proxy: StoreProxy) -> None:
    """1,000 objects are looked up in the index, and signed, without a word to the store."""
    async with starting(storage_transfer="download=direct,upload=relay") as direct:
        await direct.wait_signing(READ)
        contents = [some_bytes(10) for _ in range(1000)]
        for start in range(0, 1000, 50):
            await asyncio.gather(*(direct.service.write(1, data) for data in contents[start : start + 50]))
        proxy.requests.clear()
        oids = [oid_of(data) for data in contents]
        found = await direct.found_and_signed(1, *((oid, 10) for oid in oids), intent=READ)
        # Readiness lists a folder of which there is nothing.
        asked = [line for line in proxy.requests if "list-type" not in line]
    assert {each.status for each in found} == {pb.OBJECT_STATUS_PRESENT}
    assert all(each.signed.url for each in found)
    assert asked == []


@pytest.mark.parametrize("transfer", ["direct", "download=direct,upload=relay", "upload=direct"])
async def test_a_disk_signs_nothing(transfer: str, database_url: SecretStr, tmp_path: Path) -> None:
    """An operator who asks for direct transfer from a disk must learn at the start that a disk cannot sign."""
    with pytest.raises(ValueError, match="storage_transfer: direct needs an object store"):
        async with running_storage(database_url, tmp_path, storage_transfer=transfer):
            raise AssertionError("it serves")
