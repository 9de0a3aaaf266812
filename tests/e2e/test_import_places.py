"""`towpath repo import` and `export` with folders, buckets and other servers, and what each says of what is wrong."""

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.support.commands import finished
from tests.support.git import Workspace
from tests.support.http import Client, content, oid_of
from tests.support.pointers import commit_pointers
from tests.support.scripted_lfs_server import ScriptedServer, scripted_server
from tests.support.seaweedfs import SeaweedFS
from tests.support.transfer import Target

DATAS = [content(f"object {number}", 500 * number + 1) for number in range(60)] + [content("large", 9_000_000)]
OBJECTS = {oid_of(data): len(data) for data in DATAS}


def lay_out(folder: Path, datas: Sequence[bytes], *, whole: bool = True) -> Path:
    """Write objects into a folder as git-lfs has them, or as GitLab has them."""
    for data in datas:
        oid = oid_of(data)
        path = folder / oid[:2] / oid[2:4] / (oid if whole else oid[4:])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return folder


def lock(path: str, owner: str, moment: str = "2026-01-02T03:04:05Z") -> dict[str, Any]:
    """Return a lock as another server tells it."""
    return {"id": path, "path": path, "owner": {"name": owner}, "locked_at": moment}


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    """A server that misbehaves as it is told."""
    with scripted_server() as running:
        yield running


@pytest.fixture
def git(alice: Workspace, remote: Path, server: ScriptedServer) -> Path:
    """A git repository with a pointer to each object, which the server has."""
    server.add(*DATAS)
    alice.git("init", "--quiet", "--bare", "--initial-branch=main", remote)
    commit_pointers(alice, remote, {f"{number}.dat": data for number, data in enumerate(DATAS)})
    return remote


@pytest.mark.parametrize("whole", [True, pytest.param(False, marks=pytest.mark.drill)])
def test_a_folder(target: Target, tmp_path: Path, whole: bool) -> None:
    """All that it has, or what git names of it; and nothing twice."""
    folder = lay_out(tmp_path / "objects", DATAS, whole=whole)
    report = target.run("import", "--from", folder)
    assert (report["copied_count"], report["copied_bytes"]) == (len(OBJECTS), sum(OBJECTS.values()))
    assert target.objects() == OBJECTS
    again = target.run("import", "--from", f"file://{folder}", "--rate", "50MB")
    assert (again["copied_count"], again["held_count"]) == (0, len(OBJECTS))
    assert "locks" not in again


def test_a_folder_of_several_repositories(target: Target, tmp_path: Path, git: Path) -> None:
    """Gitea and GitLab have one for all: git tells which objects are of this one, and which are missing."""
    others = [content(f"of another repository {number}", 100) for number in range(5)]
    folder = lay_out(tmp_path / "objects", [*DATAS[1:], *others])
    report = target.run("import", "--from", folder, "--git", git, status=1)
    assert target.objects() == {oid_of(data): len(data) for data in DATAS[1:]}
    assert report["problems"] == [
        {"oid": oid_of(DATAS[0]), "kind": "missing", "problem": "the folder does not have it"}
    ]
    assert (report["missing_count"], report["wrong_count"]) == (1, 0)


@pytest.mark.drill
def test_a_wrong_object_holds_up_no_other(target: Target, tmp_path: Path) -> None:
    """A small one and a large one: each is told, nothing of it is held, and its right bytes are taken later."""
    wrong = [DATAS[3], DATAS[-1]]
    folder = lay_out(tmp_path / "objects", DATAS)
    for data in wrong:
        oid = oid_of(data)
        (folder / oid[:2] / oid[2:4] / oid).write_bytes(b"x" + data[1:])
    report = target.run("import", "--from", folder, status=1)
    assert {problem["oid"] for problem in report["problems"]} == {oid_of(data) for data in wrong}
    assert {problem["kind"] for problem in report["problems"]} == {"wrong"}
    assert target.objects().keys() == OBJECTS.keys() - {oid_of(data) for data in wrong}
    told = finished([part for part in target.command("import", "--from", folder) if part != "--json"])
    assert told.returncode == 1
    assert f"wrong: {oid_of(DATAS[3])}: " in told.stdout
    lay_out(folder, wrong)
    assert target.run("import", "--from", folder)["copied_count"] == 2
    assert target.objects() == OBJECTS


def test_an_object_that_was_removed_here_stays_so(target: Target, tmp_path: Path) -> None:
    """An import must not bring back what an administrator has removed."""
    folder = lay_out(tmp_path / "objects", DATAS[:2])
    target.run("import", "--from", folder)
    oid = oid_of(DATAS[0])
    target.stack.towpath("object", "remove", target.name, oid, "--reason", "licence", "--yes")
    report = target.run("import", "--from", folder, status=1)
    [problem] = report["problems"]
    assert (problem["oid"], problem["kind"]) == (oid, "refused")
    assert "licence" in problem["problem"]


def test_a_quota_ends_the_import(target: Target, tmp_path: Path) -> None:
    """The reason is told in one line, and the import goes on when there is room."""
    folder = lay_out(tmp_path / "objects", DATAS)
    target.stack.towpath("repo", "update", target.name, "--quota", "100kB")
    assert "quota" in target.refused("import", "--from", folder)
    target.stack.towpath("repo", "update", target.name, "--quota", "none")
    target.run("import", "--from", folder)
    assert target.objects() == OBJECTS


def test_credentials_of_git_and_no_secret_told(
    target: Target, git: Path, server: ScriptedServer, tmp_path: Path
) -> None:
    """By the helper that git has; a URL with a password is refused, and not repeated."""
    server.login = ("carol", "hunter2")
    store = tmp_path / "credentials"
    store.write_text(f"http://carol:hunter2@{server.origin.removeprefix('http://')}\n")
    settings = tmp_path / "gitconfig"
    environment = {"GIT_CONFIG_GLOBAL": str(settings), "GIT_CONFIG_NOSYSTEM": "1"}
    settings.write_text("")
    assert "git has none for it" in target.refused(
        "import", "--from", server.url, "--git", git, environment=environment
    )
    settings.write_text(f"[credential]\n\thelper = store --file={store}\n")
    report = target.run("import", "--from", server.url, "--git", git, environment=environment)
    assert report["copied_count"] == len(OBJECTS)
    assert "hunter2" not in json.dumps(report)
    said = target.refused("import", "--from", server.url.replace("http://", "http://carol:hunter2@"), "--git", git)
    assert "expected a URL without a name and a password" in said
    assert "hunter2" not in said


def test_locks_of_mapped_owners(target: Target, git: Path, server: ScriptedServer, tmp_path: Path) -> None:
    """By name, by a list, all others, or none; conflicts stay; a mirror releases what was copied, and nothing else."""
    server.page = 3
    server.locks = [lock(f"a/{number}.dat", "Carol.C") for number in range(5)]
    server.locks += [lock("b.dat", "bob"), lock("c.dat", "dora"), lock("taken.dat", "bob")]
    target.stack.towpath("lock", "add", target.name, "taken.dat", "own.dat", "--user", "alice")
    standing = target.locks()
    ask = ("import", "--from", server.url, "--git", git)
    assert "there is no user nobody" in target.refused(*ask, "--map-owner", "Carol.C=nobody")
    assert "these owners of locks are no users here: Carol.C, dora;" in target.refused(*ask)
    assert (target.objects(), target.locks()) == ({}, standing)

    skipped = target.run(*ask, "--map-owner", "Carol.C=alice", "--skip-unmapped", status=1)["locks"]
    assert (skipped["there_count"], skipped["taken_count"], skipped["skipped_count"]) == (8, 6, 1)
    assert skipped["conflicts"] == [{"path": "taken.dat", "reason": "it is locked here by alice"}]
    names = tmp_path / "owners"
    names.write_text("# of the forge\nCarol.C = alice\n")
    others = target.run(*ask, "--owner-map", names, "--unmapped-owner", "bob", status=1)["locks"]
    assert (others["taken_count"], others["kept_count"]) == (1, 6)
    moment = "2026-01-02T03:04:05Z"
    imported = {f"a/{number}.dat": ("alice", moment) for number in range(5)}
    imported |= {"b.dat": ("bob", moment), "c.dat": ("bob", moment)}
    assert target.locks() == standing | imported

    server.locks = [lock("a/0.dat", "bob"), *server.locks[1:4], lock("c.dat", "dora")]
    copied = target.run(*ask, "--owner-map", names, "--unmapped-owner", "bob", status=1)["locks"]
    assert (copied["released_count"], [entry["path"] for entry in copied["conflicts"]]) == (0, ["a/0.dat"])
    mirrored = target.run(*ask, "--owner-map", names, "--unmapped-owner", "bob", "--locks", "mirror")["locks"]
    assert (mirrored["released_count"], mirrored["taken_count"]) == (3, 1)
    expected = {"a/0.dat": ("bob", moment), **{path: imported[path] for path in ("a/1.dat", "a/2.dat", "a/3.dat")}}
    assert target.locks() == standing | expected | {"c.dat": ("bob", moment)}
    assert "locks" not in target.run(*ask, "--locks", "none")


async def test_an_export_and_the_way_back(target: Target, tmp_path: Path) -> None:
    """To a folder, with the locks; another repository that imports both is equal to the first."""
    async with Client(target.url, "alice", target.stack.tokens["alice"]) as client:
        for data in DATAS:
            assert (await client.upload(data)).status_code == 200
    target.stack.towpath("lock", "add", target.name, "a.dat", "b.dat", "--user", "alice")
    target.stack.towpath("lock", "add", target.name, "c/ü.dat", "--user", "bob")
    folder, locks = tmp_path / "out", tmp_path / "locks.json"
    told = target.run("export", "--to", folder, "--locks", locks)
    assert (told["copied_count"], told["lock_count"], told["problems"]) == (len(OBJECTS), 3, [])
    files = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert files == {Path(oid[:2], oid[2:4], oid): data for oid, data in zip(OBJECTS, DATAS, strict=True)}
    again = target.run("export", "--to", folder)
    assert (again["copied_count"], again["held_count"]) == (0, len(OBJECTS))

    other = Target(target.stack, f"{target.name}-other")
    target.stack.towpath("repo", "add", other.name)
    report = other.run("import", "--from", folder, "--lock-list", locks)
    assert (report["copied_count"], report["locks"]["taken_count"]) == (len(OBJECTS), 3)
    assert (other.objects(), other.locks()) == (target.objects(), target.locks())
    events = target.stack.towpath("audit", "list", "--repository", other.name, "--type", "object.imported")
    assert {oid for event in events for oid in event["after"]["oids"]} == OBJECTS.keys()


@pytest.mark.drill
def test_a_server_and_a_bucket(target: Target, tmp_path: Path, server: ScriptedServer, seaweedfs: SeaweedFS) -> None:
    """Both get what a repository has, and another repository gets it from the bucket."""
    target.run("import", "--from", lay_out(tmp_path / "objects", DATAS))
    bucket = seaweedfs.url(target.name.replace("/", "-"))
    for place in (server.url, bucket):
        told = target.run("export", "--to", place)
        assert (told["copied_count"], told["problems"]) == (len(OBJECTS), [])
    assert server.objects == {oid_of(data): data for data in DATAS}
    other = Target(target.stack, f"{target.name}-other")
    target.stack.towpath("repo", "add", other.name)
    other.run("import", "--from", bucket)
    assert other.objects() == OBJECTS


def test_what_is_asked_wrongly(target: Target, tmp_path: Path, git: Path, server: ScriptedServer) -> None:
    """Before anything is written, in one line."""
    for arguments, expected in (
        (["--from", server.url], "expected --git with a server"),
        (["--from", tmp_path / "none"], "expected a folder that exists, or a URL"),
        (["--from", "ftp://x/y"], "expected http(s)://, az://, gs://, s3:// or a folder, got ftp://"),
        (["--from", f"{server.url}?x=y", "--git", git], "expected a URL such as"),
        (["--from", tmp_path, "--map-owner", "x"], "expected THEIRS=OURS"),
        (["--from", tmp_path, "--rate", "10kB"], "expected at least 100 kB"),
        (["--from", tmp_path, "--skip-unmapped", "--unmapped-owner", "bob"], "expected one of"),
        (["--from", tmp_path, "--lock-list", tmp_path / "none"], "no such file"),
    ):
        assert expected in target.refused("import", *arguments)
    (tmp_path / "locks").write_text("{}")
    said = target.refused("import", "--from", tmp_path, "--lock-list", tmp_path / "locks")
    assert "expected a list of locks, as `git lfs locks --json` prints it" in said
    absent = Target(target.stack, "studio/absent")
    assert "there is no repository" in absent.refused("import", "--from", tmp_path)
    assert "there is no repository" in absent.refused("export", "--to", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    shutil.rmtree(git)
    assert "expected a folder that exists, or a URL" in target.refused("import", "--from", server.url, "--git", git)
