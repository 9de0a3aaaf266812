"""Two sites behind one name, each with the repositories of its own, as docs/scaling.md puts a proxy before them."""

import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.folders import temporary_folder
from tests.support.http import Client, content, oid_of
from tests.support.proxies import Proxy, running_nginx
from tests.support.stack import Stack, running, running_stack

_TRUSTING = {"TOWPATH_TRUSTED_PROXIES": "127.0.0.1"}


@pytest.fixture
def sites() -> Iterator[tuple[Stack, Stack]]:
    """One with the repository demo/assets, and one with games/shooter."""
    with (
        running_stack("--demo", environment=_TRUSTING) as first,
        temporary_folder() as folder,
        # On a folder of its own making: copies have the same tokens.
        running(Stack(folder / "var", environment=_TRUSTING)) as second,
    ):
        second.towpath("repo", "add", "games/shooter")
        second.towpath("grant", "alice", "games/shooter", "--role", "write")
        yield first, second


def _client(proxy: Proxy, site: Stack, repository: str) -> Client:
    trusting = ssl.create_default_context(cafile=str(proxy.files.authority))
    return Client(f"{proxy.origin}/{repository}", "alice", site.tokens["alice"], verify=trusting)


@pytest.mark.drill
@pytest.mark.usefixtures("relayed")
async def test_a_repository_is_at_the_site_of_its_prefix(sites: tuple[Stack, Stack], tmp_path: Path) -> None:
    """Batches, the addresses that they answer with, and locks; the sites know nothing of each other."""
    first, second = sites
    with running_nginx(tmp_path, [first.listen, second.listen], block=("scaling.md", "nginx two sites")) as proxy:
        for site, repository, path in (
            (first, "demo/assets", "only here.psd"),
            (second, "games/shooter", "only there.psd"),
        ):
            async with _client(proxy, site, repository) as alice:
                data = content(repository, 300_000)
                action = await alice.action("upload", oid_of(data), len(data))
                assert action is not None
                assert action.href == f"{proxy.origin}/{repository}/objects/{oid_of(data)}"
                assert (await alice.put(action, data, len(data))).status_code == 200
                assert (await alice.download(oid_of(data), len(data))).content == data
                assert (await alice.lock(path)).status_code == 201
                assert [lock["path"] for lock in await alice.all_locks()] == [path]
            assert [lock["path"] for lock in site.towpath("lock", "list", repository)] == [path]
        async with _client(proxy, first, "games/shooter") as stranger:
            assert (await stranger.locks()).status_code == 401
