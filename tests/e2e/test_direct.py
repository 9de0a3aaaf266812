"""The real git-lfs moves its bytes to and from a real store, by the addresses that Towpath signs."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.git import Workspace, shared_repository
from tests.support.http import MEDIA_TYPE, basic, content, oid_of
from tests.support.seaweedfs import SeaweedFS
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS, blocking_until

KIB = 1024
# Of several sizes; git-lfs moves no empty ones.
FILES = {f"{n}.dat": content(f"direct {n}", size) for n, size in enumerate((0, 1, 10 * KIB, 3000 * KIB, 9000 * KIB))}


@pytest.fixture(scope="module")
def direct_stack(seaweedfs: SeaweedFS) -> Iterator[Stack]:
    """A `towpath up` on the store, whose probe has passed."""
    arguments = ("--demo", "--storage", seaweedfs.url("direct-e2e"))
    with running_stack(*arguments, environment={"TOWPATH_STORAGE_TRANSFER": "direct"}) as running:

        def signs() -> bool:
            return "X-Amz-Signature" in _batch(running, "upload", b"nobody")["actions"]["upload"]["href"]

        blocking_until(signs, "the probe passes")
        yield running


def _batch(stack: Stack, operation: str, data: bytes) -> Any:  # noqa: ANN401 - JSON
    """Return what a batch answers for one object."""
    headers = {
        "Authorization": basic("alice", stack.tokens["alice"]),
        "Accept": MEDIA_TYPE,
        "Content-Type": MEDIA_TYPE,
    }
    body = {"operation": operation, "objects": [{"oid": oid_of(data), "size": len(data)}]}
    with httpx.Client(trust_env=False, timeout=STEP_SECONDS) as http:
        response = http.post(f"{stack.base_url}/objects/batch", json=body, headers=headers)
    response.raise_for_status()
    return response.json()["objects"][0]


@pytest.fixture
def computers(tmp_path: Path, direct_stack: Stack) -> list[Workspace]:
    """The computers of alice and bob, whose clients tell what they ask for."""
    made = [
        Workspace(tmp_path / user, user, direct_stack.tokens[user], origin=direct_stack.origin)
        for user in ("alice", "bob")
    ]
    for workspace in made:
        workspace.environment["GIT_CURL_VERBOSE"] = "1"
        workspace.environment["NO_PROXY"] = workspace.environment["no_proxy"] = os.environ.get("NO_PROXY", "")
    return made


def test_push_and_clone(computers: list[Workspace], direct_stack: Stack, seaweedfs: SeaweedFS, tmp_path: Path) -> None:
    """The bytes go to the store and come from it; the facade has seen batches and verifications alone."""
    alice, bob = computers
    remote = tmp_path / "remote.git"
    clone = shared_repository(alice, remote, lfs_url=direct_stack.base_url)
    clone.commit(FILES)
    pushed = clone.git("push", "origin", "main").stderr
    store = seaweedfs.endpoint.removeprefix("http://")
    lines = pushed.splitlines()
    assert len([line for line in lines if "> PUT /objects/direct-e2e/objects/" in line]) == len(FILES) - 1
    assert any(f"Host: {store}" in line for line in lines)
    copy = bob.clone(remote, lfs_url=direct_stack.base_url)
    assert {path.name: path.read_bytes() for path in copy.path.glob("*.dat")} == FILES
    copy.fsck()
    log = direct_stack.log()
    seen = {operation: log.count(f'"operation":"{operation}"') for operation in ("verify", "upload", "download")}
    assert seen == {"verify": len(FILES) - 1, "upload": 0, "download": 0}
    assert "X-Amz-Signature" not in log


def test_what_a_batch_tells_of_an_address(direct_stack: Stack) -> None:
    """A client needs the URL, the headers and the expiry; verify stays with Towpath, and says what is held."""
    data = os.urandom(1000)
    actions = _batch(direct_stack, "upload", data)["actions"]
    upload, verify = actions["upload"], actions["verify"]
    assert set(upload["header"]) == {"Content-Type", "Content-Encoding", "x-amz-checksum-sha256"}
    assert 3500 < upload["expires_in"] <= 3600
    assert verify["href"].startswith(direct_stack.origin)
    with httpx.Client(trust_env=False, timeout=STEP_SECONDS) as http:

        def verified() -> int:
            body = {"oid": oid_of(data), "size": len(data)}
            headers = {"Content-Type": MEDIA_TYPE, **verify["header"]}
            return http.post(verify["href"], json=body, headers=headers).status_code

        assert verified() == 404
        assert http.put(upload["href"], content=b"x" * 1000, headers=upload["header"]).status_code == 400
        assert verified() == 404
        assert http.put(upload["href"], content=data, headers=upload["header"]).status_code == 200
        # Held by the question alone, for clients that never verify.
        download = _batch(direct_stack, "download", data)["actions"]["download"]
        assert [verified(), verified()] == [200, 200]
        assert download["header"] == {}
        assert http.get(download["href"]).content == data
