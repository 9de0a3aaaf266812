"""The real git-lfs with tokens of forges, at stubs of every kind, and `towpath forge`."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.forges import KINDS, StubForge, running_forge
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import content
from tests.support.stack import Stack, running_stack
from tests.support.waiting import blocking_until

SETTINGS = {"TOWPATH_FORGE_GRANTED_SECONDS": "3", "TOWPATH_FORGE_REFUSED_SECONDS": "0.5"}


@pytest.fixture(scope="module")
def tied() -> Iterator[Stack]:
    """A stack whose roles of forges count for some seconds."""
    with running_stack(environment=SETTINGS) as stack:
        yield stack


@pytest.fixture(params=[kind if kind == "gitlab" else pytest.param(kind, marks=pytest.mark.drill) for kind in KINDS])
def forge(request: pytest.FixtureRequest, tied: Stack) -> Iterator[StubForge]:
    """A stub with people in it, from which a repository of the name of the kind is tied."""
    kind = request.param
    with running_forge(kind) as running:
        add = ("forge", "add", kind, "--kind", kind, "--api", running.api_url, "--repositories", "acme/*")
        assert tied.towpath(*add)["api_url"] == running.api_url
        tied.towpath("repo", "add", f"studio/{kind}", "--forge", kind, "--forge-repository", "acme/film")
        for login, role in (("ann", "write"), ("ben", "admin"), ("cho", "read")):
            running.add(f"{login}-{kind}", f"{kind}-token-of-{login}", role)
        yield running


def _computer(folder: Path, forge: StubForge, login: str, stack: Stack) -> Workspace:
    return Workspace(folder / login, f"{login}-{forge.kind}", f"{forge.kind}-token-of-{login}", origin=stack.origin)


def _push(clone: Clone, name: str, *, check: bool = True) -> int:
    clone.commit({name: content(f"{clone.path} {name}", 20_000)})
    return clone.git("push", "origin", "main", check=check).returncode


def test_people_push_clone_and_lock_by_tokens_of_the_forge(forge: StubForge, tied: Stack, tmp_path: Path) -> None:
    """Those who may write at the forge push and lock, those who may read clone; and a right that is taken away ends."""
    lfs_url, remote = f"{tied.origin}/studio/{forge.kind}", tmp_path / "remote.git"
    anns = shared_repository(_computer(tmp_path, forge, "ann", tied), remote, lfs_url=lfs_url)
    assert _push(anns, "a.dat") == 0
    bens, chos = (_computer(tmp_path, forge, login, tied).clone(remote, lfs_url=lfs_url) for login in ("ben", "cho"))
    for clone in (bens, chos):
        assert (clone.path / "a.dat").read_bytes() == (anns.path / "a.dat").read_bytes()
        clone.fsck()
    anns.lfs("lock", "a.dat")
    locks = json.loads(bens.lfs("locks", "--verify", "--json").stdout)
    assert [lock["owner"]["name"] for lock in locks["theirs"]] == [f"ann-{forge.kind}"]
    assert json.loads(anns.lfs("locks", "--verify", "--json").stdout)["theirs"] == []
    bens.git("config", f"lfs.{lfs_url}.locksverify", "true")
    assert _push(bens, "a.dat", check=False) != 0
    anns.lfs("unlock", "a.dat")
    assert _push(chos, "c.dat", check=False) != 0
    account = next(id_ for id_, login in forge.logins.items() if login.startswith("ann"))
    del forge.projects["acme/film"].roles[account]
    blocking_until(lambda: anns.lfs("locks", check=False).returncode != 0, "the right of ann ends")
    assert _push(anns, "late.dat", check=False) != 0
    shown = {credential for _, credential in forge.requests}
    assert shown == {f"{forge.kind}-token-of-{login}" for login in ("ann", "ben", "cho")}


def test_a_repository_is_made_on_its_first_push(tied: Stack, tmp_path: Path) -> None:
    """Whoever may push at the forge needs no administrator of ours; the forge stays while it is tied."""
    with running_forge("gitea") as forge:
        name = "on-use"
        options = ("--api", forge.api_url, "--repositories", "ateam/*", "--create-on-use")
        tied.towpath("forge", "add", name, "--kind", "gitea", *options)
        forge.add("dan", "gitea-token-of-dan", "write", "ateam/game")
        lfs_url = f"{tied.origin}/ateam/game"
        dans = shared_repository(_computer(tmp_path, forge, "dan", tied), tmp_path / "remote.git", lfs_url=lfs_url)
        assert _push(dans, "a.dat") == 0
        made = next(repo for repo in tied.towpath("repo", "list") if repo["name"] == "ateam/game")
        assert (made["forge"], made["forge_repository"], made["public"]) == (name, "ateam/game", False)
        assert name in [forge["name"] for forge in tied.towpath("forge", "list")]
        untied = tied.towpath("repo", "update", "ateam/game", "--no-forge")
        assert "forge" not in untied
        assert tied.towpath("forge", "remove", name, "--yes")["name"] == name
        blocking_until(lambda: dans.lfs("locks", check=False).returncode != 0, "the right of dan ends")
        assert _push(dans, "b.dat", check=False) != 0
