"""Stores through AdminService, with a real storage service behind it."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.storage.v1.store_service_pb2 import Store

from services.common.errors import AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, Reason
from tests.service.locks.conftest import Both, running_both
from tests.support.locks import refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.storage import running_storage
from tests.support.waiting import until_answer


class Site(Both):
    """Both services, whose folder has room for more stores."""

    async def add(self, name: str, url: str | None = None) -> Store:
        """Add a store; without a URL, one in a folder of its own."""
        request = admin.CreateStoreRequest(name=name, url=(self.folder / name).as_uri() if url is None else url)
        return (await self.locks.admin_peer.call(self.locks.admin.CreateStore, request)).store

    async def list(self) -> dict[str, Store]:
        """Return all stores by name."""
        response = await self.locks.admin_peer.call(self.locks.admin.ListStores, admin.ListStoresRequest())
        names = [store.name for store in response.stores]
        assert names == sorted(names)
        return {store.name: store for store in response.stores}

    async def copy(self, source: str, target: str, *, parallel: int = 0, bytes_per_second: int = 0) -> Store:
        """Start a copy."""
        request = admin.StartCopyRequest(
            from_store=source, to_store=target, parallel=parallel, bytes_per_second=bytes_per_second
        )
        return (await self.locks.admin_peer.call(self.locks.admin.StartCopy, request)).store

    async def stop(self, name: str) -> Store:
        """Stop a copy."""
        request = admin.StopCopyRequest(name=name)
        return (await self.locks.admin_peer.call(self.locks.admin.StopCopy, request)).store

    async def set_primary(self, name: str) -> Store:
        """Make a store the primary."""
        request = admin.SetPrimaryStoreRequest(name=name)
        return (await self.locks.admin_peer.call(self.locks.admin.SetPrimaryStore, request)).store

    async def remove(self, name: str) -> None:
        """Forget a store."""
        await self.locks.admin_peer.call(self.locks.admin.DeleteStore, admin.DeleteStoreRequest(name=name))


@pytest.fixture
async def site(postgres: TestPostgres, tmp_path: Path) -> AsyncIterator[Site]:
    """Both services, each on a database of its own."""
    async with running_both(postgres, tmp_path) as both:
        yield Site(both.locks, both.storage, tmp_path)


async def test_a_move(site: Site) -> None:
    """All objects come into the new store, which then stands alone; to add it again changes nothing."""
    before = await site.storage.write(1, b"before")
    await site.storage.write(2, b"before")
    first = (await site.list())["first"]
    assert (first.url, first.is_primary, first.HasField("copy")) == ("", True, False)
    assert first.HasField("created_at")
    assert (first.object_count, first.object_bytes, first.lacking_count, first.lacking_bytes) == (1, 6, 0, 0)
    added = await site.add("second")
    assert (await site.add("second")).created_at == added.created_at
    assert (added.name, added.url, added.is_primary) == ("second", (site.folder / "second").as_uri(), False)
    second = (await site.list())["second"]
    assert (second.object_count, second.lacking_count, second.lacking_bytes) == (0, 1, 6)
    copy = (await site.copy("first", "second", parallel=2, bytes_per_second=1_000_000)).copy
    assert (copy.from_store, copy.parallel, copy.bytes_per_second) == ("first", 2, 1_000_000)
    assert copy.HasField("started_at")
    during = await site.storage.write(1, b"during")

    async def lacking() -> int:
        return (await site.list())["second"].lacking_count

    await until_answer(0, lacking)
    second = (await site.list())["second"]
    assert (second.object_count, second.object_bytes, second.copy.problem) == (2, 12, "")
    primary = await site.set_primary("second")
    assert (primary.is_primary, primary.HasField("copy")) == (True, False)
    assert (await site.list())["first"].is_primary is False
    await site.remove("first")
    assert (await site.list()).keys() == {"second"}
    after = await site.storage.write(1, b"after")
    assert [await site.storage.read(1, oid) for oid in (before, during, after)] == [b"before", b"during", b"after"]


async def test_a_copy_that_is_stopped(site: Site) -> None:
    """The store is no copy any more; stopping what is none changes nothing."""
    await site.add("second")
    await site.copy("first", "second")
    assert not (await site.stop("second")).HasField("copy")
    assert not (await site.stop("second")).HasField("copy")
    await site.remove("second")
    assert (await site.list()).keys() == {"first"}


async def test_what_the_state_does_not_allow(site: Site) -> None:
    """Each refusal is told as the storage service says it, and changes nothing."""
    await site.storage.write(1, b"held")
    await site.add("second")
    for name, url in (("second", (site.folder / "third").as_uri()), ("third", (site.folder / "second").as_uri())):
        with refused(AlreadyExists, Reason.STORE_EXISTS):
            await site.add(name, url)
    with refused(FailedPrecondition, Reason.STORE_UNUSABLE):
        await site.add("third", "file:///dev/null/third")
    with refused(FailedPrecondition, Reason.STORE_INCOMPLETE):
        await site.set_primary("second")
    with refused(FailedPrecondition, Reason.STORE_IN_USE):
        await site.remove("first")
    stores = await site.list()
    assert {name: store.is_primary for name, store in stores.items()} == {"first": True, "second": False}


async def test_fields_that_are_malformed(site: Site) -> None:
    """The storage service names the field, and repeats no URL."""
    await site.add("second")
    for name in ("Second", "a/b", "a\0b"):
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await site.add(name)
    for url in ("/srv", "s3://key:secret@objects", "s3://objects?secret=secret"):
        with refused(InvalidArgument, Reason.INVALID_FIELD) as caught:
            await site.add("third", url)
        assert "secret" not in caught.value.message
    for parallel, limit in ((65, 0), (1, -1)):
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await site.copy("first", "second", parallel=parallel, bytes_per_second=limit)


async def test_stores_that_do_not_exist(site: Site) -> None:
    """Every call that names one says so."""
    await site.add("second")
    for call in (
        site.copy("none", "second"),
        site.copy("first", "none"),
        site.stop("none"),
        site.set_primary("none"),
        site.remove("none"),
    ):
        with refused(NotFound, Reason.STORE_NOT_FOUND):
            await call


async def test_the_secret_between_services(postgres: TestPostgres, tmp_path: Path) -> None:
    """The lock service shows it to StoreService too, and that of administration, which no other service has."""
    secret, admin_secret = SecretStr("between-the-services"), SecretStr("for-administration-alone")
    async with (
        running_storage(
            await postgres.create_database(), tmp_path, service_secret=secret, storage_admin_secret=admin_secret
        ) as storage,
        running_locks(
            await postgres.create_database(),
            tmp_path,
            storage_address=storage.address,
            service_secret=secret,
            storage_admin_secret=admin_secret,
        ) as locks,
    ):
        assert (await Site(locks, storage, tmp_path).list()).keys() == {"first"}
