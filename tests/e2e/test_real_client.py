"""The real git-lfs moves files (the issue's second condition)."""

import hashlib
import json
from pathlib import Path

import pytest

from tests.e2e.bytes_at_rest import incoming, overwrite, stored
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import Client, content, oid_of
from tests.support.stack import Stack

KIB = 1024
MIB = 1024 * KIB
SIZES = [200 * MIB, *[64 * MIB] * 2, *[16 * MIB] * 6, *[4 * MIB] * 12, *[n * KIB for n in range(1, 180)]]


def _server_errors(log: str) -> list[str]:
    """Return the log's lines of requests to the demo repository that were answered with a 5xx."""
    lines = [line for line in log.splitlines() if '"path":"/demo/assets' in line]
    return [line for line in lines if json.loads(line).get("status", 0) >= 500]


def _hashes(folder: Path) -> dict[str, str]:
    found = {}
    for path in sorted(folder.glob("**/*.dat")):
        with path.open("rb") as file:
            found[str(path.relative_to(folder))] = hashlib.file_digest(file, "sha256").hexdigest()
    return found


@pytest.mark.drill
def test_two_hundred_files_of_up_to_200_mb_arrive_elsewhere(
    alices: Clone, bob: Workspace, remote: Path, stack: Stack
) -> None:
    """200 files of 1 KiB to 200 MB are pushed by alice and cloned by bob, who gets the same bytes."""
    assert len(SIZES) == 200
    alices.commit({f"files/{n:03}.dat": content(f"two hundred {n}", size) for n, size in enumerate(SIZES)})
    written = _hashes(alices.path)
    earlier = len(stack.log())
    alices.git("push", "origin", "main")
    clone = bob.clone(remote, lfs_url=stack.base_url)
    assert _hashes(clone.path) == written
    assert "Git LFS fsck OK" in clone.fsck()
    assert set(written.values()) <= stored(stack)
    assert incoming(stack) == []
    assert _server_errors(stack.log()[earlier:]) == []


@pytest.mark.parametrize(
    "alias",
    [
        "{origin}/demo/assets",
        "{origin}/demo/assets.git/info/lfs",
        "{origin}/demo/assets/info/lfs",
        "{origin}/demo/assets.git",
        "{origin}/demo/assets/",
    ],
)
def test_every_base_address_leads_to_the_same_repository(
    alias: str, alices: Clone, bob: Workspace, remote: Path, stack: Stack
) -> None:
    """Users may set any base address, so objects pushed to one address are cloned from the other."""
    address = alias.format(origin=stack.origin)
    data = content(f"address {alias}", 100 * KIB)
    alices.git("config", "lfs.url", address)
    alices.commit({"a.dat": data})
    alices.git("push", "origin", "main")
    for number, url in enumerate((stack.base_url, f"{stack.base_url}.git/info/lfs")):
        clone = bob.clone(remote, f"clone-{number}", lfs_url=url)
        assert (clone.path / "a.dat").read_bytes() == data
        clone.fsck()


def test_pushing_again_uploads_nothing(alices: Clone, computer_with_trace: Workspace, remote: Path) -> None:
    """Objects that the service holds are not sent again, by nobody (protocol: Batch, rule 3)."""
    files = {f"{n}.dat": content(f"again {n}", 10 * KIB) for n in range(5)}
    alices.commit(files)
    alices.workspace.environment["GIT_CURL_VERBOSE"] = "1"
    first = alices.git("push", "origin", "main")
    assert first.stderr.count("> PUT /") == len(files)
    url = alices.git("config", "lfs.url").stdout.strip()
    elsewhere = computer_with_trace.clone(remote, lfs_url=url)
    again = elsewhere.lfs("push", "--all", "origin")
    assert "> POST /demo/assets/objects/batch" in again.stderr
    assert "> PUT /" not in again.stderr


@pytest.fixture
def computer_with_trace(tmp_path: Path, stack: Stack) -> Workspace:
    """A second computer of alice, whose git-lfs tells of every request."""
    workspace = Workspace(tmp_path / "second", "alice", stack.tokens["alice"], origin=stack.origin)
    workspace.environment["GIT_CURL_VERBOSE"] = "1"
    return workspace


async def test_push_without_write_access_is_refused_with_the_reason(bobs: Clone, stack: Stack) -> None:
    """Bob may read only: his push to main ends with the service's message and nothing published."""
    data = content("bob on main", 10 * KIB)
    async with Client(stack.base_url, "bob", stack.tokens["bob"], ref="refs/heads/main") as client:
        answer = await client.batch("upload", (oid_of(data), len(data)))
        assert answer.status_code == 403
    bobs.commit({"bob.dat": data})
    before = bobs.git("ls-remote", "origin").stdout
    pushed = bobs.git("push", "origin", "bob:main", check=False)
    assert pushed.returncode != 0
    assert answer.json()["message"] in pushed.stderr
    assert bobs.git("ls-remote", "origin").stdout == before
    assert oid_of(data) not in stored(stack)


def test_push_to_the_ref_that_is_granted_succeeds(bobs: Clone, alices: Clone) -> None:
    """Bob may write on refs/heads/bob, and alice gets what he pushed there (protocol: Batch, rule 4)."""
    data = content("bob on bob", 10 * KIB)
    bobs.commit({"bob.dat": data})
    bobs.git("push", "origin", "bob")
    alices.git("fetch", "--quiet", "origin")
    alices.git("checkout", "--quiet", "bob")
    assert (alices.path / "bob.dat").read_bytes() == data


def test_fetch_pull_and_prune(alices: Clone, bobs: Clone, stack: Stack) -> None:
    """Fetch, pull and prune --verify-remote do as their manual says; a removed object is not pruned."""
    bobs.git("checkout", "--quiet", "main")
    versions = [content(f"version {n}", 50 * KIB) for n in range(3)]
    for data in versions:
        alices.commit({"versions.dat": data})
    alices.git("push", "origin", "main")
    bobs.git("pull", "--quiet", "origin", "main")
    assert (bobs.path / "versions.dat").read_bytes() == versions[-1]
    bobs.lfs("fetch", "--all", "origin")
    local = {path.name for path in (bobs.path / ".git" / "lfs" / "objects").rglob("*") if path.is_file()}
    assert {oid_of(data) for data in versions} <= local

    old = oid_of(versions[0])
    stack.towpath("object", "remove", "demo/assets", old, "--reason", "not ours")
    recent = ("lfs.fetchrecentrefsdays", "lfs.fetchrecentcommitsdays", "lfs.pruneoffsetdays")
    for setting in recent:
        alices.git("config", setting, "0")
    refused = alices.lfs("prune", "--verify-remote", check=False)
    assert refused.returncode != 0
    assert old in refused.stdout + refused.stderr
    stack.towpath("object", "restore", "demo/assets", old)
    alices.lfs("push", "--object-id", "origin", old)
    alices.lfs("prune", "--verify-remote")
    left = {path.name for path in (alices.path / ".git" / "lfs" / "objects").rglob("*") if path.is_file()}
    assert oid_of(versions[-1]) in left
    assert not {oid_of(data) for data in versions[:-1]} & left
    alices.lfs("fetch", "--all", "origin")
    alices.fsck()


def test_interrupted_download_is_resumed(alices: Clone, bob: Workspace, remote: Path, stack: Stack) -> None:
    """A partial file of an earlier run is completed with a range, and is right."""
    data = content("resumed", 8 * MIB)
    alices.commit({"resumed.dat": data})
    alices.git("push", "origin", "main")
    bob.environment["GIT_LFS_SKIP_SMUDGE"] = "1"
    clone = bob.clone(remote, lfs_url=stack.base_url)
    del bob.environment["GIT_LFS_SKIP_SMUDGE"]
    partial = clone.path / ".git" / "lfs" / "incomplete" / f"{oid_of(data)}.part"
    partial.parent.mkdir(parents=True, exist_ok=True)
    partial.write_bytes(data[: 5 * MIB])
    bob.environment["GIT_CURL_VERBOSE"] = "1"
    pulled = clone.lfs("pull")
    assert f"Range: bytes={5 * MIB}-" in pulled.stderr
    assert "206 Partial Content" in pulled.stderr
    assert (clone.path / "resumed.dat").read_bytes() == data


async def test_wrong_bytes_on_the_disk_do_not_reach_the_working_tree(
    alices: Clone, bob: Workspace, remote: Path, stack: Stack
) -> None:
    """A file that rots on the service's disk is reported by the client and not deleted (trap-6)."""
    data = content("rotting", 100 * KIB)
    oid = oid_of(data)
    alices.commit({"rotting.dat": data})
    alices.git("push", "origin", "main")
    rotten = bytes([data[0] ^ 1]) + data[1:]
    overwrite(stack, oid, rotten)
    bob.environment["GIT_LFS_SKIP_SMUDGE"] = "1"
    clone = bob.clone(remote, lfs_url=stack.base_url)
    pulled = clone.lfs("pull", check=False)
    assert pulled.returncode != 0
    assert (clone.path / "rotting.dat").read_bytes() != rotten
    overwrite(stack, oid, data)
    clone.lfs("pull")
    assert (clone.path / "rotting.dat").read_bytes() == data


def test_public_repository_is_cloned_without_credentials(tmp_path: Path, alice: Workspace, stack: Stack) -> None:
    """Anybody clones from a publicly readable repository, and only those with a grant push to it."""
    stack.towpath("repo", "add", "demo/public", "--public")
    stack.towpath("grant", "alice", "demo/public", "--role", "write")
    url = f"{stack.origin}/demo/public"
    remote = tmp_path / "public.git"
    alices = shared_repository(alice, remote, lfs_url=url)
    data = content("public", 10 * KIB)
    alices.commit({"public.dat": data})
    alices.git("push", "origin", "main")
    stranger = Workspace(tmp_path / "stranger", "stranger", None, origin=stack.origin)
    clone = stranger.clone(remote, lfs_url=url)
    assert (clone.path / "public.dat").read_bytes() == data
    clone.commit({"more.dat": content("not welcome", 10)})
    assert clone.git("push", "origin", "main", check=False).returncode != 0
