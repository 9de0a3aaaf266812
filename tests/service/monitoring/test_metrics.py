"""The series of the three services, as processes, before and after known deeds."""

import asyncio
from pathlib import Path

import httpx
import pytest

from tests.support.http import Client, content, oid_of
from tests.support.services import METRICS_TOKEN, REPOSITORY, SERVICES, Samples, Services, key
from tests.support.storage import stored_path
from tests.support.waiting import STEP_SECONDS, until

STORAGE = "/towpath.storage.v1.StorageService"
LOCKS = "/towpath.locks.v1.LockService"


class Moved:
    """The change of each sample between two scrapes."""

    def __init__(self, before: Samples, after: Samples) -> None:
        self._before, self._after = before, after

    def by(self, name: str, **labels: str) -> float:
        """Return by how much; a sample that was not there has moved from 0."""
        sample = key(name, **labels)
        return self._after.get(sample, 0) - self._before.get(sample, 0)

    def all_of(self, name: str) -> dict[tuple[str, ...], float]:
        """Return those samples of a series that have moved, by the values of their labels in the labels' order."""
        return {
            tuple(value for _, value in sorted(labels)): moved
            for sample, labels in self._after
            if sample == name and (moved := self.by(name, **dict(labels)))
        }


async def _moved(services: Services, before: dict[str, Samples]) -> dict[str, Moved]:
    return {name: Moved(before[name], after) for name, after in (await services.scrape_all()).items()}


async def _lock_id(client: Client, path: str) -> str:
    response = await client.lock(path)
    assert response.status_code == 201
    lock_id: str = response.json()["lock"]["id"]
    return lock_id


async def test_objects_move_the_series_by_what_was_done(services: Services) -> None:
    """A batch, an upload, one with other bytes, a download; each byte and each deed once, where it belongs."""
    good, bad = content("metrics", 70_000), content("another", 70_000)
    async with services.client("alice") as alice:
        before = await services.scrape_all()
        assert (await alice.upload(good)).status_code == 200
        action = await alice.offered("upload", bad)
        assert (await alice.put(action, good, len(good))).status_code == 400
        assert (await alice.download(oid_of(good), len(good))).content == good
        moved = await _moved(services, before)
    facade, storage = moved["facade"], moved["storage"]
    assert facade.all_of("towpath_http_requests_total") == {
        ("batch", "200"): 3,
        ("upload", "200"): 1,
        ("upload", "400"): 1,
        ("download", "200"): 1,
    }
    assert facade.by("towpath_http_request_seconds_count", operation="upload") == 2
    assert facade.by("towpath_http_bytes_total", direction="in") > 140_000
    assert 70_000 < facade.by("towpath_http_bytes_total", direction="out") < 80_000
    assert storage.all_of("towpath_object_bytes_total") == {("in",): 140_000, ("out",): 70_000}
    assert storage.all_of("towpath_uploads_total") == {("stored",): 1, ("rejected",): 1}
    assert storage.all_of("towpath_uploads_rejected_total") == {("HASH_MISMATCH",): 1}
    calls = storage.all_of("towpath_grpc_requests_total")
    # The facade asks for removals all the time.
    calls.pop((f"{STORAGE}/WatchRemovals", "OK"), None)
    assert calls == {
        (f"{STORAGE}/BatchStatObjects", "OK"): 3,
        (f"{STORAGE}/WriteWholeObject", "OK"): 1,
        (f"{STORAGE}/WriteWholeObject", "INVALID_ARGUMENT"): 1,
        (f"{STORAGE}/ReadObject", "OK"): 1,
    }
    assert storage.by("towpath_grpc_request_seconds_count", method=f"{STORAGE}/WriteWholeObject") == 2
    assert storage.by("towpath_objects_missing_total") == 0


async def test_locks_move_the_series_by_what_was_done(services: Services) -> None:
    """A lock, a conflict, an unlock, a forced unlock."""
    async with services.client("alice") as alice, services.client("bob") as bob:
        before = await services.scrape_all()
        first, second = await _lock_id(alice, "a.psd"), await _lock_id(alice, "b.psd")
        assert (await bob.lock("a.psd")).status_code == 409
        assert (await alice.unlock(first)).status_code == 200
        assert (await bob.unlock(second)).status_code == 403
        assert (await bob.unlock(second, force=True)).status_code == 200
        moved = await _moved(services, before)
    assert moved["facade"].all_of("towpath_http_requests_total") == {
        ("create_lock", "201"): 2,
        ("create_lock", "409"): 1,
        ("delete_lock", "200"): 2,
        ("delete_lock", "403"): 1,
    }
    assert moved["locks"].by("towpath_locks_created_total") == 2
    assert moved["locks"].by("towpath_lock_conflicts_total") == 1
    assert moved["locks"].all_of("towpath_locks_released_total") == {("false",): 1, ("true",): 1}
    assert moved["locks"].by("towpath_grpc_requests_total", method=f"{LOCKS}/CreateLock", status="ALREADY_EXISTS") == 1


async def test_bytes_that_are_gone_are_counted_where_they_are_read(services: Services) -> None:
    """The index has the object, the disk has not."""
    data = content("to be lost", 500)
    async with services.client("alice") as alice:
        await alice.upload(data)
        path = stored_path(services.folder / "bytes", oid_of(data))
        await asyncio.to_thread(path.unlink)
        action = await alice.offered("download", data)
        before = await services.scrape("storage")
        assert (await alice.http.get(action.href, headers=action.header)).status_code == 502
        response = await alice.batch("download", (oid_of(data), len(data)))
        assert response.json()["objects"][0]["error"]["code"] == 502
        moved = Moved(before, await services.scrape("storage"))
    assert moved.by("towpath_objects_missing_total") == 1


async def test_a_stranger_makes_no_series(services: Services) -> None:
    """Paths and repositories that nobody knows are counted, and are no label."""
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, base_url=services.origin) as http:
        before = (await services.scrape_all())["facade"]
        for path in ("/nothing/here", "/such/a/thing", "/healthz/x"):
            assert (await http.get(path)).status_code == 404
        assert (await http.post("/unknown/one/locks", json={})).status_code in (401, 406, 415)
        reader, writer = await asyncio.open_connection(*httpx.URL(services.origin).netloc.decode().split(":"))
        writer.write(b"no such protocol\r\n\r\n")
        assert b" 400 " in await reader.readline()
        writer.close()
        await writer.wait_closed()
        moved = Moved(before, (await services.scrape_all())["facade"])
    counted = moved.all_of("towpath_http_requests_total")
    assert counted.pop(("other", "404")) == 3
    assert counted.pop(("other", "400")) == 1
    assert [operation for operation, _ in counted] == ["create_lock"]


async def test_sizes_and_locks_of_repositories_are_told(services: Services) -> None:
    """They are refreshed in the background, by the repository's id; its name is told once."""
    data = content("sizes", 3_000)
    async with services.client("alice") as alice:
        await alice.upload(data)
        await _lock_id(alice, "sizes.psd")
    locks, storage = await services.scrape("locks"), await services.scrape("storage")
    (named,) = [dict(labels) for name, labels in locks if name == "towpath_repository_info"]
    assert named["repository"] == REPOSITORY
    own = {"repository_id": named["repository_id"]}

    async def has_both() -> bool:
        nonlocal locks, storage
        locks, storage = await services.scrape("locks"), await services.scrape("storage")
        has_bytes = storage.get(key("towpath_repository_bytes", **own), 0) >= 3_000
        return has_bytes and bool(locks.get(key("towpath_locks", **own)))

    await until(has_both, "bytes and locks are told")
    assert storage[key("towpath_repository_objects", **own)] >= 1
    assert storage[key("towpath_storage_available_bytes")] > 0


@pytest.mark.parametrize("service", SERVICES)
async def test_every_service_tells_of_itself(services: Services, service: str) -> None:
    """Its version, its process, how far its event loop lags."""
    samples = await services.scrape(service)
    assert samples[key("towpath_build_info", version="0.1.0")] == 1
    assert samples[key("process_resident_memory_bytes")] > 0
    assert samples[key("towpath_event_loop_lag_seconds_count")] > 0


@pytest.mark.parametrize("service", ["storage", "locks"])
async def test_the_pool_is_told(services: Services, service: str) -> None:
    """Its size, and how many connections are open."""
    samples = await services.scrape(service)
    assert samples[key("towpath_database_pool_size")] == 10
    states = [samples[key("towpath_database_connections", state=state)] for state in ("in_use", "idle")]
    assert 1 <= sum(states) <= 10
    assert key("towpath_database_retries_total") in samples


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("shown", [None, "Bearer", "Bearer wrong", f"Basic {METRICS_TOKEN}", "Bearer é"])
async def test_metrics_are_for_those_who_show_the_token(services: Services, service: str, shown: str | None) -> None:
    """All others get 401, whatever they ask for but whether the process lives."""
    headers = {b"Authorization": shown.encode()} if shown is not None else {}
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
        for path, status in (("/metrics", 401), ("/", 401), ("/healthz", 200)):
            response = await http.get(f"http://{services.metrics_address(service)}{path}", headers=headers)
            assert (response.status_code, response.content) == (status, b"")


async def test_nothing_else_is_served_there(services: Services) -> None:
    """Only /metrics, and only by GET."""
    headers = {"Authorization": f"Bearer {METRICS_TOKEN}"}
    async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, headers=headers) as http:
        base = f"http://{services.metrics_address('storage')}"
        assert (await http.get(f"{base}/")).status_code == 404
        assert (await http.post(f"{base}/metrics")).status_code == 501


async def test_metrics_are_not_open_to_other_hosts_without_a_token(tmp_path: Path) -> None:
    """The process says so, and ends."""
    services = Services(tmp_path, database_url=None)  # type: ignore[arg-type] # the process ends before it needs one
    address = f"unix:{tmp_path / 'nobody'}"
    settings = {"storage_address": address, "locks_address": address, "signing_key": "k" * 32}
    services.start("facade", {**settings, "listen": "127.0.0.1:0", "facade_metrics_listen": "0.0.0.0:0"})
    assert await asyncio.to_thread(services.processes["facade"].wait, STEP_SECONDS) == 1
    assert "metrics_token: needed" in services.log("facade")
