"""A checkout that adds its own Authorization to every request, as continuous integration does, behind each proxy.

The real client sends it beside the headers of an action. nginx and Apache refuse a request that has two of them, so the
token of an action stands in a header of its own (client-9).
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.git import Workspace, shared_repository
from tests.support.http import basic, content
from tests.support.proxies import PROXIES
from tests.support.stack import Stack


@contextmanager
def _reached(way: str, stack: Stack, folder: Path) -> Iterator[tuple[str, Path | None]]:
    """Yield the origin by which a client reaches the stack, and what it has to trust."""
    if way == "direct":
        yield stack.origin, None
        return
    folder.mkdir()
    with PROXIES[way](folder, [stack.listen, stack.listen]) as proxy:
        yield proxy.origin, proxy.files.authority


@pytest.mark.parametrize("scheme", ["Basic", "Bearer"])
@pytest.mark.parametrize("way", ["direct", *(pytest.param(name, marks=pytest.mark.drill) for name in PROXIES)])
def test_every_command_works_with_an_extra_header(way: str, scheme: str, stack: Stack, tmp_path: Path) -> None:
    """Uploads, with their verification, downloads and locks; the client has no other credentials."""
    token = stack.tokens["alice"]
    header = basic("x-access-token", token) if scheme == "Basic" else f"Bearer {token}"
    with _reached(way, stack, tmp_path / "proxy") as (origin, authority):
        computer = Workspace(tmp_path / "home", "runner", None, origin=origin)
        if authority is not None:
            computer.git("config", "--global", "http.sslCAInfo", authority)
        computer.git("config", "--global", f"http.{origin}/.extraHeader", f"Authorization: {header}")
        url = f"{origin}/demo/assets"
        clone = shared_repository(computer, tmp_path / "remote.git", lfs_url=url)
        data = content(f"extra header {way} {scheme}", 300_000)
        clone.commit({"a.dat": data})
        clone.git("push", "origin", "main")
        again = computer.clone(tmp_path / "remote.git", "again", lfs_url=url)
        assert (again.path / "a.dat").read_bytes() == data
        name = f"{way} {scheme}.dat"
        assert f"Locked {name}" in again.lfs("lock", name).stdout
        assert name in again.lfs("locks", "--verify").stdout
        assert f"Unlocked {name}" in again.lfs("unlock", name).stdout
