"""`towpath up` that serves HTTPS itself, with the real git-lfs."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.certificates import CertificateFiles, write_certificate
from tests.support.folders import temporary_folder
from tests.support.git import Workspace, shared_repository
from tests.support.http import content
from tests.support.stack import Stack, running_stack


@pytest.fixture(scope="module")
def files() -> Iterator[CertificateFiles]:
    """The certificate that it serves with, where the account can read it that root's stack runs as."""
    with temporary_folder() as folder:
        yield write_certificate(folder)


@pytest.fixture(scope="module")
def secure(files: CertificateFiles) -> Iterator[Stack]:
    """A `towpath up` with that certificate."""
    with running_stack(environment=files.environment) as running:
        yield running


def test_push_clone_and_lock_over_https(secure: Stack, files: CertificateFiles, tmp_path: Path) -> None:
    """The ready line names https, and the client needs to know nothing but the authority."""
    assert secure.origin.startswith("https://127.0.0.1:")
    assert secure.demo["base_url"] == secure.base_url
    computers = [
        Workspace(tmp_path / user, user, secure.tokens[user], origin=secure.origin) for user in ("alice", "bob")
    ]
    for computer in computers:
        computer.git("config", "--global", "http.sslCAInfo", files.authority)
    alice, bob = computers
    clone = shared_repository(alice, tmp_path / "remote.git", lfs_url=secure.base_url)
    names = {f"{n}.dat": content(f"over https {n}", 300_000) for n in range(4)}
    clone.commit(names)
    clone.git("push", "origin", "main")
    locked = clone.lfs("lock", "1.dat")
    assert "Locked 1.dat" in locked.stdout
    there = bob.clone(tmp_path / "remote.git", lfs_url=secure.base_url)
    assert {name: (there.path / name).read_bytes() for name in names} == names
    assert "alice" in there.lfs("locks").stdout


def test_a_client_that_does_not_know_the_authority_refuses(secure: Stack, tmp_path: Path) -> None:
    """So that it is really the certificate that is looked at."""
    alice = Workspace(tmp_path / "alice", "alice", secure.tokens["alice"], origin=secure.origin)
    alice.git("init", "--quiet", "clone")
    asked = alice.git("-c", f"lfs.url={secure.base_url}", "lfs", "locks", cwd=alice.home / "clone", check=False)
    assert asked.returncode != 0
    assert "certificate" in asked.stderr
