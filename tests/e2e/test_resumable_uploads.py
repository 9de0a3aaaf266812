"""The real git-lfs with `lfs.tustransfers`: an upload that breaks off goes on where it ended, at any replica."""

import asyncio
import json
import os
import secrets
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.bytes_at_rest import incoming, names
from tests.support.cutting_proxy import CuttingProxy, cutting_proxy
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import oid_of
from tests.support.seaweedfs import Prefix, SeaweedFS
from tests.support.stack import Stack, running_stack
from tests.support.two_hosts import TwoHosts, running_two_hosts
from tests.support.waiting import LONG_SECONDS, until

MIB = 1024 * 1024
SIZE = 64 * MIB
PART = 32 * MIB
CUTS = [SIZE * percent // 100 for percent in (30, 60, 90)]
MOST_SENT = SIZE * 115 // 100

pytestmark = [pytest.mark.usefixtures("relayed"), pytest.mark.timeout(3 * LONG_SECONDS)]


@pytest.fixture(scope="module")
def site() -> Iterator[Stack]:
    """A `towpath up` of its own, whose services are killed."""
    with running_stack("--demo") as running:
        yield running


@pytest.fixture(scope="module")
def hosts(seaweedfs: SeaweedFS) -> Iterator[TwoHosts]:
    """Two hosts of one site, which share a database and a bucket."""

    def new_bucket() -> Prefix:
        return Prefix(seaweedfs, f"resumed-{secrets.token_hex(4)}", "relay")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.support.stack.new_bucket", new_bucket)
        with running_two_hosts() as running:
            assert isinstance(running, TwoHosts)
            yield running


def clone_behind(proxy: CuttingProxy, stack: Stack, folder: Path) -> Clone:
    """Return alice's clone of a repository whose large files go through the proxy, by tus."""
    origin = f"http://{proxy.address}"
    alice = Workspace(folder / "alice", "alice", stack.tokens["alice"], origin=origin)
    clone = shared_repository(alice, folder / "remote.git", lfs_url=f"{origin}/demo/assets")
    clone.git("config", "lfs.tustransfers", "true")
    return clone


async def push(clone: Clone, data: bytes) -> None:
    """Commit a large file and push it, once: git-lfs itself tries again."""
    clone.commit({"big.dat": data})
    await asyncio.to_thread(clone.git, "push", "origin", "main")


def fetched(clone: Clone, folder: Path) -> bytes:
    """Return the file in a fresh clone."""
    url = clone.git("config", "lfs.url").stdout.strip()
    there = clone.workspace.clone(folder / "remote.git", "again", lfs_url=url)
    return (there.path / "big.dat").read_bytes()


def operations(log: str) -> Counter[tuple[str, int]]:
    """Return how often the facade has answered each operation with each status."""
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    return Counter((line["operation"], line["status"]) for line in lines if line["event"] == "request")


async def nothing_else_is_left(stack: Stack, oid: str, size: int) -> None:
    """Wait until the only bytes of an object are its own, and no check finds anything."""

    def is_alone() -> bool:
        sizes = [found for name, found in names(stack).items() if name.startswith(oid)]
        return sizes == [size] and not incoming(stack)

    await until(is_alone, "the parts are gone")
    assert stack.towpath("check", "--hash", seconds=LONG_SECONDS)["findings"] == []


async def test_cut_at_30_60_and_90_percent(site: Stack, tmp_path: Path) -> None:
    """One push gets through three cuts, and sends at most 1.15 times the object in all."""
    data = os.urandom(SIZE)
    before = operations(site.log())
    async with cutting_proxy([site.listen], CUTS) as proxy:
        clone = await asyncio.to_thread(clone_behind, proxy, site, tmp_path)
        await push(clone, data)
        assert proxy.cuts_made == len(CUTS)
        assert SIZE < proxy.sent <= MOST_SENT
        assert await asyncio.to_thread(fetched, clone, tmp_path) == data
    done = operations(site.log()) - before
    assert done["append", 204] == 1
    assert done["upload", 200] == 0
    await nothing_else_is_left(site, oid_of(data), SIZE)


@pytest.mark.drill
async def test_each_part_at_another_replica(hosts: TwoHosts, tmp_path: Path) -> None:
    """After each cut the next request reaches the other host, facade and storage alike, and goes on from there."""
    data = os.urandom(SIZE)
    async with cutting_proxy([hosts.first.listen, hosts.second.listen], CUTS) as proxy:
        clone = await asyncio.to_thread(clone_behind, proxy, hosts, tmp_path)
        await push(clone, data)
        assert proxy.cuts_made == len(CUTS)
        assert SIZE < proxy.sent <= MOST_SENT
        assert await asyncio.to_thread(fetched, clone, tmp_path) == data
    for host in (hosts.first, hosts.second):
        assert sum(count for (name, _), count in operations(host.log()).items() if name == "append") == 2
    await nothing_else_is_left(hosts, oid_of(data), SIZE)


@pytest.mark.parametrize(
    ("victim", "most_sent"),
    [
        pytest.param("facade", MOST_SENT, id="facade", marks=pytest.mark.drill),
        pytest.param("storage", SIZE + PART + 4 * MIB, id="storage"),
    ],
)
async def test_killed_amid(site: Stack, tmp_path: Path, victim: str, most_sent: int) -> None:
    """The push gets through the death of a service; a storage service that is killed loses at most one part."""
    data = os.urandom(SIZE)

    async def kill() -> None:
        await asyncio.to_thread(site.kill_service, victim)

    async with cutting_proxy([site.listen], [SIZE * 80 // 100], kill, rate=8 * MIB) as proxy:
        clone = await asyncio.to_thread(clone_behind, proxy, site, tmp_path)
        await push(clone, data)
        assert proxy.cuts_made == 1
        assert SIZE < proxy.sent <= most_sent
        assert await asyncio.to_thread(fetched, clone, tmp_path) == data
    await nothing_else_is_left(site, oid_of(data), SIZE)


async def test_without_the_setting_nothing_changes(site: Stack, tmp_path: Path) -> None:
    """A client without `lfs.tustransfers` uploads by PUT, as before."""
    data = os.urandom(MIB)
    before = operations(site.log())
    async with cutting_proxy([site.listen], []) as proxy:
        clone = await asyncio.to_thread(clone_behind, proxy, site, tmp_path)
        clone.git("config", "--unset", "lfs.tustransfers")
        await push(clone, data)
    done = operations(site.log()) - before
    assert (done["upload", 200], done["append", 204], done["upload_offset", 200]) == (1, 0, 0)


async def test_many_small_objects(site: Stack, tmp_path: Path) -> None:
    """Objects of one part need one PATCH each, and several go at once."""
    contents = {f"{number}.dat": os.urandom(100_000) for number in range(30)}
    before = operations(site.log())
    async with cutting_proxy([site.listen], []) as proxy:
        clone = await asyncio.to_thread(clone_behind, proxy, site, tmp_path)
        clone.commit(contents)
        await asyncio.to_thread(clone.git, "push", "origin", "main")
    done = operations(site.log()) - before
    assert (done["append", 204], done["upload_offset", 200]) == (len(contents), len(contents))
    held = {entry["oid"] for entry in site.towpath("object", "list", "demo/assets")}
    assert held >= {oid_of(data) for data in contents.values()}
