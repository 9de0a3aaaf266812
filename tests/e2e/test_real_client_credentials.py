"""The real git-lfs shows who it is in all the ways it has, and gives up where it is nobody."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.support.git import Clone, Workspace
from tests.support.http import content
from tests.support.stack import Stack


@pytest.fixture
def stranger(tmp_path: Path, stack: Stack) -> Workspace:
    """A computer without any credentials."""
    return Workspace(tmp_path / "stranger", "stranger", None, origin=stack.origin)


def _moves_files(workspace: Workspace, remote: Path, lfs_url: str, name: str) -> None:
    clone = workspace.clone(remote, f"{name}-one", lfs_url=lfs_url)
    data = content(f"credentials {name}", 20_000)
    clone.commit({f"{name}.dat": data})
    clone.git("push", "origin", "main")
    again = workspace.clone(remote, f"{name}-two", lfs_url=lfs_url)
    assert (again.path / f"{name}.dat").read_bytes() == data
    again.fsck()


def test_credentials_in_netrc(alices: Clone, stranger: Workspace, remote: Path, stack: Stack) -> None:
    """User and token stand in ~/.netrc."""
    assert alices.path.exists()
    host = urlsplit(stack.origin).hostname
    (stranger.home / ".netrc").write_text(f"machine {host} login alice password {stack.tokens['alice']}\n")
    (stranger.home / ".netrc").chmod(0o600)
    _moves_files(stranger, remote, stack.base_url, "netrc")


def test_credentials_in_the_address(alices: Clone, stranger: Workspace, remote: Path, stack: Stack) -> None:
    """User and token stand in the address of the service; the token is the credential, under any user name."""
    assert alices.path.exists()
    host = urlsplit(stack.origin).netloc
    url = f"http://whoever:{stack.tokens['alice']}@{host}/demo/assets"
    _moves_files(stranger, remote, url, "whoever")


def _refused(workspace: Workspace, remote: Path, stack: Stack) -> None:
    workspace.environment["GIT_LFS_SKIP_SMUDGE"] = "1"
    clone = workspace.clone(remote, lfs_url=stack.base_url)
    clone.git("config", "lfs.transfer.maxretries", "1")
    clone.commit({"refused.dat": content("refused", 20_000)})
    for command in (("push", "origin", "main"), ("lfs", "pull"), ("lfs", "lock", "refused.dat"), ("lfs", "locks")):
        assert clone.git(*command, check=False).returncode != 0, command


def test_no_credentials_end_with_an_error(alices: Clone, stranger: Workspace, remote: Path, stack: Stack) -> None:
    """A user without credentials must get an error from every command, and no prompt without end."""
    alices.commit({"private.dat": content("private", 20_000)})
    alices.git("push", "origin", "main")
    _refused(stranger, remote, stack)


def test_wrong_credentials_end_with_an_error(alices: Clone, tmp_path: Path, remote: Path, stack: Stack) -> None:
    """A wrong token in git's credential store is tried, forgotten, and every command ends with an error."""
    alices.commit({"wrong.dat": content("wrong", 20_000)})
    alices.git("push", "origin", "main")
    _refused(Workspace(tmp_path / "wrong", "mallory", "no-such-token", origin=stack.origin), remote, stack)


def test_helper_that_repeats_wrong_credentials_is_stopped(
    alices: Clone, stranger: Workspace, remote: Path, stack: Stack
) -> None:
    """A client that would repeat wrong credentials for ever is slowed until it gives up (client-6)."""
    alices.commit({"repeated.dat": content("repeated", 20_000)})
    alices.git("push", "origin", "main")
    helper = "!f() { echo username=mallory; echo password=no-such-token; }; f"
    stranger.git("config", "--global", "credential.helper", helper)
    _refused(stranger, remote, stack)
    # The right token is not refused because others failed from its address.
    assert alices.lfs("locks").returncode == 0
