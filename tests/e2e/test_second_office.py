"""A second office: the real client at a cache, `towpath up --upstream`, in front of a `towpath up`."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.damage import DAMAGE
from tests.support.folders import temporary_folder
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import content
from tests.support.lfs_test_server import lfs_test_server
from tests.support.ports import free_address
from tests.support.stack import Stack, running, running_stack
from tests.support.waiting import STEP_SECONDS

CLONES = 16
Files = dict[str, bytes]


@dataclass
class TwoOffices:
    """A Towpath far away, a cache near the people, and where the first one tells its metrics."""

    far: Stack
    near: Stack
    metrics: str

    @property
    def lfs_url(self) -> str:
        """The base address of the repository at the cache."""
        return f"{self.near.origin}/demo/assets"

    def workspace(self, home: Path, user: str, token: str | None = None) -> Workspace:
        """Return a computer in the second office."""
        return Workspace(home, user, token or self.far.tokens[user], origin=self.near.origin)

    def downloads(self) -> float:
        """Return the number of downloads that the far office has answered."""
        with httpx.Client(trust_env=False, timeout=STEP_SECONDS) as http:
            text = http.get(f"http://{self.metrics}/metrics").text
        return sum(
            sample.value
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == "towpath_http_requests_total" and sample.labels["operation"] == "download"
        )


@pytest.fixture(scope="module")
def offices() -> Iterator[TwoOffices]:
    """Both offices; the cache asks the upstream for rights anew after a second."""
    metrics = free_address()
    with (
        running_stack(environment={"TOWPATH_FACADE_METRICS_LISTEN": metrics}) as far,
        temporary_folder() as folder,
        running(
            Stack(
                folder / "var",
                ("--upstream", far.origin),
                {"TOWPATH_CACHE_RIGHT_SECONDS": "1", "TOWPATH_CACHE_CONNECT_SECONDS": "2"},
            )
        ) as near,
    ):
        yield TwoOffices(far, near, metrics)


@pytest.fixture
def files(request: pytest.FixtureRequest) -> Files:
    """Six files, whose bytes no other test has."""
    name = request.node.name
    return {f"reel-{number}.dat": content(f"{name} {number}", 700_000 + 300_000 * number) for number in range(6)}


@pytest.fixture
def pushed(offices: TwoOffices, files: Files, remote: Path, tmp_path: Path) -> Clone:
    """Alice's clone in the far office, which has pushed the files past the cache."""
    alice = Workspace(tmp_path / "far", "alice", offices.far.tokens["alice"], origin=offices.far.origin)
    clone = shared_repository(alice, remote, lfs_url=offices.far.base_url)
    clone.commit(files)
    clone.git("push", "--quiet")
    return clone


def _has_all(clone: Clone, files: Files) -> bool:
    return all((clone.path / name).read_bytes() == data for name, data in files.items())


@pytest.mark.usefixtures("relayed")
@pytest.mark.drill
def test_sixteen_clones_at_once(offices: TwoOffices, files: Files, pushed: Clone, remote: Path, tmp_path: Path) -> None:
    """Each clone is whole, and the far office has sent each object once."""
    alice = offices.workspace(tmp_path / "near", "alice")
    bob = offices.workspace(tmp_path / "near-bob", "bob")

    def clone(number: int) -> Clone:
        workspace = bob if number % 2 else alice
        return workspace.clone(remote, f"clone-{number}", lfs_url=offices.lfs_url)

    before = offices.downloads()
    with ThreadPoolExecutor(CLONES) as threads:
        clones = list(threads.map(clone, range(CLONES)))
    assert all(_has_all(clone, files) for clone in clones)
    assert "OK" in clones[0].fsck()
    assert offices.downloads() - before == len(files)
    assert pushed.path.exists()


def test_push_and_locks_through_the_cache(
    offices: TwoOffices, files: Files, pushed: Clone, remote: Path, tmp_path: Path
) -> None:
    """Work in the second office reaches the far one: objects, locks, and the refusal of a push over another's lock."""
    near = offices.workspace(tmp_path / "near", "alice").clone(remote, lfs_url=offices.lfs_url)
    bob = offices.workspace(tmp_path / "near-bob", "bob")
    # As docs/second-office.md says, in place of another `lfs.url`.
    bob.git("config", "--global", f"url.{offices.near.origin}/.insteadOf", f"{offices.far.origin}/")
    before = offices.downloads()
    bobs = bob.clone(remote, lfs_url=offices.far.base_url)
    assert _has_all(bobs, files)
    assert offices.downloads() == before
    near.git("config", "lfs.locksverify", "true")
    near.lfs("lock", "reel-0.dat")
    assert "reel-0.dat" in pushed.lfs("locks").stdout
    near.commit({"reel-0.dat": b"another cut", "new.dat": content("new", 2_000_000)})
    near.git("push", "--quiet")
    pushed.git("pull", "--quiet")
    assert (pushed.path / "new.dat").read_bytes() == content("new", 2_000_000)
    assert "OK" in pushed.fsck()
    bobs.git("checkout", "--quiet", "-b", "bob")
    bobs.git("config", "lfs.locksverify", "true")
    bobs.commit({"reel-0.dat": b"bob's cut"})
    refused = bobs.git("push", "--quiet", "origin", "bob", check=False)
    assert refused.returncode != 0
    assert "alice" in refused.stdout
    near.lfs("unlock", "reel-0.dat")
    assert "reel-0.dat" not in pushed.lfs("locks").stdout


def test_without_a_right(offices: TwoOffices, files: Files, pushed: Clone, remote: Path, tmp_path: Path) -> None:
    """Carol, and somebody with a wrong token, get nothing of what alice has made the cache keep."""
    assert _has_all(offices.workspace(tmp_path / "near", "alice").clone(remote, lfs_url=offices.lfs_url), files)
    offices.far.towpath("user", "add", "carol")
    carols = offices.far.towpath("token", "add", "carol", "laptop")["secret"]
    for user, token in (("carol", carols), ("mallory", "a token of nobody")):
        workspace = offices.workspace(tmp_path / user, user, token)
        clone = workspace.git(
            "clone", f"--config=lfs.url={offices.lfs_url}", "--branch=main", remote, "clone", check=False
        )
        assert clone.returncode != 0
        found = [path.read_bytes() for path in (workspace.home / "clone" / ".git" / "lfs").rglob("*") if path.is_file()]
        assert not set(found) & set(files.values())
    assert pushed.path.exists()


def test_the_far_office_away(offices: TwoOffices, files: Files, pushed: Clone, remote: Path, tmp_path: Path) -> None:
    """Clones go on for those who had a right, all else says why it waits, and locking stays switched on."""
    offices.far.towpath("user", "add", "dora")
    offices.far.towpath("grant", "dora", "demo/assets", "--role", "read")
    doras = offices.far.towpath("token", "add", "dora", "laptop")["secret"]
    alice = offices.workspace(tmp_path / "near", "alice")
    first = alice.clone(remote, "first", lfs_url=offices.lfs_url)
    first.git("config", f"lfs.{offices.lfs_url}.locksverify", "true")
    settings = first.git("config", "--get-regexp", "locksverify").stdout
    assert "true" in settings
    assert offices.far.stop() == 0
    assert _has_all(alice.clone(remote, "second", lfs_url=offices.lfs_url), files)
    first.commit({"later.dat": b"later"})
    refused = first.git("push", "--quiet", check=False)
    assert refused.returncode != 0
    assert "does not answer" in refused.stderr
    assert "does not answer" in first.lfs("lock", "reel-0.dat", check=False).stderr
    assert first.git("config", "--get-regexp", "locksverify").stdout == settings
    dora = offices.workspace(tmp_path / "near-dora", "dora", doras)
    never = dora.git("clone", f"--config=lfs.url={offices.lfs_url}", "--branch=main", remote, "clone", check=False)
    assert never.returncode != 0
    offices.far.start()
    first.git("push", "--quiet")
    first.lfs("lock", "reel-0.dat")
    assert first.git("config", "--get-regexp", "locksverify").stdout == settings
    assert pushed.path.exists()


@pytest.mark.usefixtures("pushed")
def test_the_disk_of_the_cache_rots(offices: TwoOffices, files: Files, remote: Path, tmp_path: Path) -> None:
    """Every file of the cache has a wrong bit: the next clone has the right bytes all the same."""
    offices.workspace(tmp_path / "bob", "bob").clone(remote, "first", lfs_url=offices.lfs_url)
    objects = offices.near.data / "cache" / "objects"
    kept = [path for path in objects.rglob("*") if path.is_file()]
    assert len(kept) >= len(files)
    for path in kept:
        DAMAGE["the first bit"](path)
    clone = offices.workspace(tmp_path / "later", "bob").clone(remote, "second", lfs_url=offices.lfs_url)
    assert _has_all(clone, files)


@pytest.mark.drill
def test_in_front_of_another_server(files: Files, remote: Path, tmp_path: Path) -> None:
    """A push, two clones, a lock and its end, through a cache of a server that is no Towpath."""
    with (
        lfs_test_server(tmp_path / "server") as server,
        temporary_folder() as folder,
        running(Stack(folder / "var", ("--upstream", server.origin))) as near,
    ):
        lfs_url = f"{near.origin}/demo/assets"
        alice = Workspace(tmp_path / "near", "alice", server.password, origin=near.origin)
        clone = shared_repository(alice, remote, lfs_url=lfs_url)
        clone.commit(files)
        clone.git("push", "--quiet")
        for name in ("first", "second"):
            assert _has_all(alice.clone(remote, name, lfs_url=lfs_url), files)
        assert near.log().count('"source":"fetched"') == len(files)
        clone.lfs("lock", "reel-0.dat")
        assert "reel-0.dat" in clone.lfs("locks").stdout
        clone.lfs("unlock", "reel-0.dat")
        assert "reel-0.dat" not in clone.lfs("locks").stdout
