"""Signing with what stores and their credentials allow: Azure, credentials that end, limits."""

import datetime
import json
import secrets
import sys
from pathlib import Path

import grpc
import httpx
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs
from towpath.storage.v1 import storage_service_pb2 as pb

from services.common.errors import Reason
from services.storage.backends.object_store.opening import open_object_store
from services.storage.blob_names import new_name
from tests.support.azurite import Azurite
from tests.support.direct import DirectStorage, direct_storage, some_bytes
from tests.support.seaweedfs import SeaweedFS
from tests.support.storage import failure, oid_of, running_storage
from tests.support.store_proxy import store_proxy
from tests.support.waiting import STEP_SECONDS, until

READ, WRITE = pb.INTENT_READ, pb.INTENT_WRITE


@pytest.mark.drill
async def test_azure_signs_downloads(azurite: Azurite, database_url: SecretStr, tmp_path: Path) -> None:
    """With the account's key; uploads are relayed there, as Azure compares no SHA-256."""
    url = azurite.url(f"direct-{secrets.token_hex(4)}")
    with pytest.raises(ValueError, match="storage_transfer: upload=direct needs a store that speaks S3"):
        async with running_storage(database_url, tmp_path, storage_url=url, storage_transfer="direct"):
            raise AssertionError("it serves")
    async with (
        httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http,
        running_storage(database_url, tmp_path, storage_url=url, storage_transfer="download=direct") as service,
    ):
        direct = DirectStorage(service, await open_object_store(url), database_url, http)
        await direct.wait_signing(READ)
        assert not (await direct.service.stat(1, intent=WRITE)).is_signed
        data = some_bytes()
        oid = await service.write(1, data)
        [download] = await direct.sign(1, (oid, len(data)), intent=READ)
        part = await http.get(download.url, headers={"Range": "bytes=10-19"})
        assert (part.status_code, part.content) == (206, data[10:20])
        [upload] = await direct.sign(1, (oid_of(b"other"), 5), intent=WRITE)
        assert not upload.url
        assert (await failure(direct.confirm(1, b"other"))).reason == Reason.OBJECT_NOT_FOUND


def _told_by_a_program(
    seaweedfs: SeaweedFS, folder: Path, monkeypatch: pytest.MonkeyPatch, end: datetime.datetime
) -> Path:
    """Let credentials be what a program of the operator's tells, which end then; return the program."""
    told = {
        "Version": 1,
        "AccessKeyId": seaweedfs.access_key,
        "SecretAccessKey": seaweedfs.secret_key,
        "Expiration": end.isoformat(),
    }
    program, config = folder / "credentials.py", folder / "config"
    program.write_text(f"print({json.dumps(told)!r})")
    config.write_text(f"[default]\ncredential_process = {sys.executable} {program}\n")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    return program


async def test_no_address_outlives_its_credentials(
    seaweedfs: SeaweedFS, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A URL must expire with credentials that an operator's program gives for half an hour, in both directions."""
    end = datetime.datetime.now(datetime.UTC).replace(microsecond=0) + datetime.timedelta(minutes=30)
    _told_by_a_program(seaweedfs, tmp_path, monkeypatch, end)
    signing = (await open_object_store(seaweedfs.url("ending"))).signing
    assert signing is not None
    name = new_name(oid_of(b"any"))
    for seconds, expected in ((3600, end), (60, None)):
        before = datetime.datetime.now(datetime.UTC)
        [download] = await signing.outside.downloads([name], seconds)
        [upload] = await signing.outside.uploads([(name, 3)], seconds)
        for signed in (download, upload):
            if expected is None:
                assert 58 <= (signed.expires_at - before).total_seconds() <= 90
            else:
                assert signed.expires_at == expected


async def test_without_credentials_bytes_are_relayed(
    seaweedfs: SeaweedFS, database_url: SecretStr, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the credential program fails, storage must still report held objects, and the log must say so."""
    end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5)
    program = _told_by_a_program(seaweedfs, tmp_path, monkeypatch, end)
    async with direct_storage(seaweedfs, database_url, tmp_path) as direct:
        await direct.wait_signing(READ, WRITE)
        data = some_bytes()
        await direct.bring(1, data)
        program.write_text("raise SystemExit(1)")
        with capture_logs() as logs:
            for intent, status, wanted in (
                (READ, pb.OBJECT_STATUS_PRESENT, data),
                (WRITE, pb.OBJECT_STATUS_MISSING, b"other"),
            ):
                key = (oid_of(wanted), len(wanted))

                async def is_unsigned(
                    key: tuple[str, int] = key, intent: "pb.Intent.ValueType" = intent, status: int = status
                ) -> bool:
                    [found] = await direct.found_and_signed(1, key, intent=intent)
                    assert found.status == status
                    return not found.HasField("signed")

                # obstore uses what it was told for a tenth of a second before it asks again.
                await until(is_unsigned)
                assert (await failure(direct.sign(1, key, intent=intent))).status == grpc.StatusCode.UNAVAILABLE
    assert sum("nothing can be signed" in line["event"] for line in logs) == 2


async def test_addresses_end_where_nothing_else_is_known(seaweedfs: SeaweedFS) -> None:
    """Credentials of the environment have no end: the address has the one that was asked for."""
    signing = (await seaweedfs.backend("endless")).signing
    assert signing is not None
    before = datetime.datetime.now(datetime.UTC)
    [download] = await signing.outside.downloads([new_name(oid_of(b"any"))], 3600)
    assert 3598 <= (download.expires_at - before).total_seconds() <= 3630
    assert await signing.outside.downloads([], 3600) == []


async def test_an_address_says_nothing_of_itself(seaweedfs: SeaweedFS) -> None:
    """Whatever prints it: it is as good as a credential."""
    signing = (await seaweedfs.backend("quiet")).signing
    assert signing is not None
    [signed] = await signing.outside.downloads([new_name(oid_of(b"any"))], 60)
    assert "X-Amz-Signature" in signed.url
    assert "http" not in repr(signed)


async def test_limits_of_bandwidth_hold(seaweedfs: SeaweedFS, database_url: SecretStr, tmp_path: Path) -> None:
    """Signed bytes count, so a repository that has used up its day gets no more URLs."""
    async with direct_storage(seaweedfs, database_url, tmp_path, storage_bandwidth_limit=2000) as direct:
        await direct.wait_signing(READ, WRITE)
        data = some_bytes(1000)
        oid = await direct.bring(1, data)
        [signed] = await direct.sign(1, (oid, 1000), intent=READ)
        assert (await direct.http.get(signed.url)).content == data
        for intent, wanted in ((READ, oid), (WRITE, oid_of(b"other"))):
            for ask in (direct.sign, direct.found_and_signed):
                refused = await failure(ask(1, (wanted, 1000), intent=intent))
                assert refused.reason == Reason.BANDWIDTH_EXCEEDED


async def test_an_outage_of_the_store_is_told_when_an_object_is_confirmed(
    database_url: SecretStr, tmp_path: Path, seaweedfs: SeaweedFS
) -> None:
    """UNAVAILABLE, and nothing is given up: the client verifies again."""
    async with store_proxy(seaweedfs.port) as proxy:
        endpoint = f"http://{proxy.address}"
        with capture_logs() as logs:
            async with direct_storage(seaweedfs, database_url, tmp_path, endpoint=endpoint) as direct:
                await direct.wait_signing(WRITE)
                data = some_bytes()
                signed = await direct.upload_url(1, data)
                assert await direct.put(signed, data) == 200
                proxy.answer = (503, b"")
                assert (await failure(direct.confirm(1, data))).reason == Reason.UNAVAILABLE
                proxy.answer = None
                await direct.confirm(1, data)
                assert await direct.service.read(1, oid_of(data)) == data
    assert "X-Amz-Signature" not in str(logs)
