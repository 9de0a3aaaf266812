"""Hooks of a git server with the real git and git-lfs: locks are enforced at push, whatever the client checks."""

import itertools
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
import yaml

from services.facade.web.media_types import GENERIC
from tests.support.git import Clone, Workspace, run, shared_repository
from tests.support.http import content
from tests.support.outside import ROOT
from tests.support.sshd import Sshd, running_sshd
from tests.support.stack import Stack

_numbers = itertools.count(1)
MAP = "Content/map.dat"
HOOKS = ("pre-receive", "post-receive")


@pytest.fixture(scope="module")
def sshd() -> Iterator[Sshd]:
    """An sshd of which alice, bob and the bot have keys."""
    with running_sshd(["alice", "bob", "bot"]) as running:
        yield running


@dataclass
class Site:
    """A repository in Towpath, its git server with hooks, and a way to it."""

    stack: Stack
    tokens: Mapping[str, str]
    folder: Path
    repository: str
    remote: Path
    sshd: Sshd | None

    @property
    def lfs_url(self) -> str:
        """The base address of the repository."""
        return f"{self.stack.origin}/{self.repository}"

    def workspace(self, user: str, name: str = "") -> Workspace:
        """Make a computer of a user, whose client checks no locks."""
        made = Workspace(self.folder / (name or user), user, self.tokens[user], origin=self.stack.origin)
        made.git("config", "--global", "lfs.locksverify", "false")
        if self.sshd is None:
            made.environment["TOWPATH_PUSHER"] = user
        else:
            made.environment["GIT_SSH_COMMAND"] = self.sshd.command(user)
        return made

    @property
    def url(self) -> Path | str:
        """The address of the git repository."""
        return self.remote if self.sshd is None else self.sshd.url(self.remote)

    def clone(self, user: str, name: str = "") -> Clone:
        """Make a clone on a computer of its own."""
        return self.workspace(user, name).clone(self.url, lfs_url=self.lfs_url)

    def install(self, **settings: str) -> None:
        """Install the hooks, which have these settings, and the token of an admin of the repository alone."""
        lines = "".join(f"export {name}='{value}'\n" for name, value in settings.items())
        for name in HOOKS:
            hook = self.remote / "hooks" / name
            hook.write_text(f"#!/bin/sh\n{lines}exec {sys.executable} -m services.cli hook {name}\n")
            hook.chmod(0o755)

    @property
    def settings(self) -> dict[str, str]:
        """The settings that the hooks need."""
        return {
            "PYTHONPATH": f"{ROOT}:{ROOT / 'proto' / 'gen'}",
            "TOWPATH_SERVER": f"unix:{self.stack.data}/run/locks.sock",
            "TOWPATH_TOKEN": self.tokens["git-server"],
            "TOWPATH_REPOSITORY": self.repository,
        }

    def locks(self) -> set[tuple[str, str]]:
        """Return the paths and owners of all locks."""
        return {(lock["path"], lock["owner"]) for lock in self.stack.towpath("lock", "list", self.repository)}

    def history(self) -> list[tuple[str, str, bool]]:
        """Return the paths of the released locks, who released them, and whether by force."""
        listed = self.stack.towpath("lock", "history", self.repository)
        return [(lock["path"], lock["released_by"], lock["forced"]) for lock in listed]


@pytest.fixture(scope="package")
def tokens(stack: Stack) -> Mapping[str, str]:
    """The tokens of alice, bob, a bot and a git server, which are all users of the stack."""
    tokens = dict(stack.tokens)
    for user in ("bot", "git-server"):
        stack.towpath("user", "add", user)
        tokens[user] = stack.towpath("token", "add", user)["secret"]
    return tokens


@pytest.fixture
def make_site(stack: Stack, tokens: Mapping[str, str], tmp_path: Path) -> Callable[[Sshd | None], Site]:
    """Return a function that makes a repository with a map on its main branch, and hooks."""

    def make(sshd: Sshd | None) -> Site:
        repository = f"studio/push-{next(_numbers)}"
        stack.towpath("repo", "add", repository)
        for user in ("alice", "bob", "bot"):
            stack.towpath("grant", user, repository, "--role", "write")
        stack.towpath("grant", "git-server", repository, "--role", "admin")
        site = Site(stack, tokens, tmp_path, repository, tmp_path / "remote.git", sshd)
        first = shared_repository(site.workspace("alice", "first"), site.remote, lfs_url=site.lfs_url)
        first.commit({MAP: content("map", 1_000), "other.dat": content("other", 1_000), "text": b"text\n"})
        first.git("push", "--quiet", "origin", "main")
        site.install(**site.settings)
        return site

    return make


@pytest.fixture(params=["file", pytest.param("ssh", marks=pytest.mark.drill)])
def site(request: pytest.FixtureRequest, make_site: Callable[[Sshd | None], Site]) -> Site:
    """A repository that is reached in either way."""
    return make_site(request.getfixturevalue("sshd") if request.param == "ssh" else None)


@pytest.fixture
def local(make_site: Callable[[Sshd | None], Site]) -> Site:
    """A repository that is reached by its path."""
    return make_site(None)


def push(clone: Clone, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Push, and return how it went."""
    return clone.git("push", "origin", *(arguments or ("HEAD",)), check=False)


def accepted(clone: Clone, *arguments: str) -> str:
    """Push, which must go well, and return what was said."""
    done = push(clone, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stderr


def refused(clone: Clone, *arguments: str) -> str:
    """Push, which must be refused because the map is locked, and return what was said."""
    done = push(clone, *arguments)
    assert done.returncode != 0
    assert f"{MAP}: locked by " in done.stderr, done.stderr
    return done.stderr


def steal(site: Site, user: str, path: str, *, note: str) -> None:
    """Steal a lock, as a program of the user does: git-lfs has no such command."""
    http = httpx.Client(headers={"Authorization": f"Bearer {site.tokens[user]}"}, trust_env=False)
    with http:
        [lock] = http.get(f"{site.lfs_url}/locks", params={"path": path}).json()["locks"]
        body = {"reason": "on leave", "note": note}
        answer = http.post(
            f"{site.lfs_url}/locks/{lock['id']}/steal", json=body, headers={"Content-Type": GENERIC.media_type}
        )
        assert answer.status_code == 201, answer.text


@pytest.mark.parametrize(
    "by_ssh", [pytest.param(False, id="file"), pytest.param(True, id="ssh", marks=pytest.mark.drill)]
)
def test_a_stolen_lock_is_enforced(
    request: pytest.FixtureRequest, make_site: Callable[[Sshd | None], Site], *, by_ssh: bool
) -> None:
    """A user whose client checks nothing learns at the push that the lock is another's, and nothing is pushed."""
    site = make_site(request.getfixturevalue("sshd") if by_ssh else None)
    alice, bob = site.clone("alice"), site.clone("bob")
    alice.lfs("lock", MAP)
    alice.commit({MAP: content("alice", 1_000)})
    accepted(alice)
    steal(site, "bob", MAP, note="lighting")
    alice.commit({MAP: content("alice again", 1_000)})
    said = refused(alice)
    assert f"{MAP}: locked by bob since 20" in said
    assert "UTC: lighting" in said
    assert alice.git("ls-remote", "origin", "main").stdout.split()[0] != alice.git("rev-parse", "HEAD").stdout.strip()
    bob.git("pull", "--quiet", "--rebase", "origin", "main")
    bob.commit({MAP: content("bob", 1_000)})
    accepted(bob)
    assert site.locks() == {(MAP, "bob")}


def test_a_merge_by_a_bot_passes(site: Site) -> None:
    """A user whose grant ignores locks merges what others have locked; without it, neither bot nor person does."""
    alice, bot = site.clone("alice"), site.clone("bot")
    alice.lfs("lock", MAP)
    alice.git("checkout", "--quiet", "-b", "feature")
    alice.commit({MAP: content("feature", 1_000)})
    accepted(alice)
    bot.git("fetch", "--quiet")
    bot.git("merge", "--no-ff", "--message=Merge", "origin/feature")
    refused(bot, "main")
    site.stack.towpath("grant", "bot", site.repository, "--role", "write", "--ignore-locks")
    accepted(bot, "main")
    assert site.locks() == {(MAP, "alice")}


def test_a_merge_to_main_releases_what_was_merged(site: Site) -> None:
    """The pusher's locks on the merged paths, with the branch named for it; no others, and elsewhere none."""
    update = ("repo", "update", site.repository, "--release-on")
    assert site.stack.towpath(*update, "refs/heads/main")["release_on"] == ["refs/heads/main"]
    alice, bob = site.clone("alice"), site.clone("bob")
    for path in (MAP, "text"):
        alice.lfs("lock", path)
    bob.lfs("lock", "other.dat")
    alice.git("checkout", "--quiet", "-b", "feature")
    alice.commit({MAP: content("feature", 1_000)})
    assert "released" not in accepted(alice)
    assert site.locks() == {(MAP, "alice"), ("text", "alice"), ("other.dat", "bob")}
    alice.git("checkout", "--quiet", "main")
    alice.git("merge", "--no-ff", "--message=Merge", "feature")
    said = accepted(alice, "main")
    assert "has released your locks" in said
    assert MAP in said
    assert site.locks() == {("text", "alice"), ("other.dat", "bob")}
    assert site.history() == [(MAP, "alice", False)]
    assert "release_on" not in site.stack.towpath(*update, "")
    alice.commit({"text": b"changed\n"})
    assert "released" not in accepted(alice, "main")


def test_a_forced_push_that_drops_the_change_of_another(local: Site) -> None:
    """Dropping a commit changes the locked file back."""
    alice, bob = local.clone("alice"), local.clone("bob")
    alice.lfs("lock", MAP)
    alice.git("checkout", "--quiet", "-b", "feature")
    alice.commit({MAP: content("feature", 1_000)})
    accepted(alice)
    refused(bob, "--force", "main:refs/heads/feature")
    refused(bob, "--delete", "feature")
    accepted(alice, "--delete", "feature")


def test_a_change_that_another_lock_space_has(local: Site) -> None:
    """It is new to the branch on which the file is locked, wherever it was pushed first."""
    alice, bob = local.clone("alice"), local.clone("bob")
    local.stack.towpath("repo", "update", local.repository, "--lock-space", "refs/heads/rel/*=per-ref")
    alice.lfs("lock", MAP)
    bob.commit({MAP: content("bob", 1_000)})
    accepted(bob, "HEAD:refs/heads/rel/1")
    for ref in ("refs/heads/feature", "refs/heads/main"):
        refused(bob, f"HEAD:{ref}")
    accepted(bob, "HEAD:refs/heads/rel/2")


def test_several_refs_in_one_push(local: Site) -> None:
    """One of them that changes a locked path keeps all out, as git does for this hook."""
    alice, bob = local.clone("alice"), local.clone("bob")
    alice.lfs("lock", MAP)
    bob.commit({"text": b"changed\n"})
    bob.git("branch", "harmless")
    bob.commit({MAP: content("bob", 1_000)})
    bob.git("tag", "--annotate", "--message=one", "one")
    refused(bob, "one")
    refused(bob, "harmless", "HEAD:refs/heads/harmful")
    assert not bob.git("ls-remote", "origin", "harmless").stdout
    accepted(bob, "harmless")


@pytest.mark.drill
def test_users_by_other_names(local: Site, tmp_path: Path) -> None:
    """A map names the users of Towpath by those of the git server; without it every lock counts."""
    alice = local.clone("alice")
    alice.lfs("lock", MAP)
    alice.commit({MAP: content("alice", 1_000)})
    alice.workspace.environment["TOWPATH_PUSHER"] = "Alice.Example"
    assert "Alice.Example is no user of Towpath" in refused(alice)
    users = tmp_path / "users"
    users.write_text("Alice.Example = alice\n")
    local.install(**local.settings, TOWPATH_USER_MAP=str(users))
    accepted(alice)
    alice.commit({MAP: content("nobody", 1_000)})
    del alice.workspace.environment["TOWPATH_PUSHER"]
    assert "nothing tells who pushes" in refused(alice)


@pytest.mark.drill
def test_the_variables_of_a_forge(local: Site) -> None:
    """A hook that a forge runs needs no setting but the server and the token."""
    alice, bob = local.clone("alice"), local.clone("bob")
    alice.lfs("lock", MAP)
    settings = dict(local.settings)
    del settings["TOWPATH_REPOSITORY"]
    local.install(**settings)
    owner, name = local.repository.split("/")
    for user, clone, done in (("bob", bob, refused), ("alice", alice, accepted)):
        del clone.workspace.environment["TOWPATH_PUSHER"]
        clone.workspace.environment |= {
            "GITEA_REPO_USER_NAME": owner,
            "GITEA_REPO_NAME": name,
            "GITEA_PUSHER_NAME": user,
            "GITEA_DEPLOY_KEY_ID": "0",
        }
        clone.commit({MAP: content(user, 1_000)})
        done(clone)


def test_towpath_does_not_answer(local: Site) -> None:
    """The push is refused, or by setting allowed; what the service does answer counts in both cases."""
    alice, bob = local.clone("alice"), local.clone("bob")
    alice.lfs("lock", MAP)
    settings = local.settings
    away = {**settings, "TOWPATH_SERVER": f"unix:{local.folder}/away.sock"}
    bob.commit({"text": b"changed\n"})
    local.install(**away)
    done = push(bob)
    assert done.returncode != 0
    assert "the locks cannot be checked, and so the push is refused" in done.stderr
    local.install(**away, TOWPATH_HOOK_ON_FAILURE="allow")
    said = accepted(bob)
    assert "allowed all the same" in said
    assert "your locks stay as they are" in said
    bob.commit({MAP: content("bob", 1_000)})
    local.install(**settings, TOWPATH_HOOK_ON_FAILURE="allow")
    refused(bob)
    local.install(**{**settings, "TOWPATH_TOKEN": "tp_wrong"}, TOWPATH_HOOK_ON_FAILURE="allow")
    done = push(bob)
    assert done.returncode != 0
    assert "TOWPATH_TOKEN: the token is not valid" in done.stderr


def test_the_check_of_a_workflow(local: Site) -> None:
    """A job of a forge without hooks asks the same of what a merge would bring."""
    alice, bob = local.clone("alice"), local.clone("bob")
    alice.lfs("lock", MAP)
    bob.commit({MAP: content("bob", 1_000)})
    environment = {**bob.workspace.environment, **local.settings}
    command = (sys.executable, "-m", "services.cli", "hook", "check", "--base", "origin/main", "--head", "HEAD")

    def checked(pusher: str) -> subprocess.CompletedProcess[str]:
        return run(*command, "--pusher", pusher, cwd=bob.path, environment=environment, check=False)

    done = checked("bob")
    assert (done.returncode, f"{MAP}: locked by alice" in done.stderr) == (1, True)
    assert checked("alice").returncode == 0


def test_the_workflow_for_github(local: Site) -> None:
    """It runs whenever commits or base change, and the author's locks alone are no hindrance, whoever has pushed."""
    workflow = yaml.safe_load((ROOT / "examples" / "github-action" / "locks.yml").read_text())
    # YAML 1.1 reads the key `on` as true.
    assert {"opened", "synchronize", "reopened", "edited"} == set(workflow[True]["pull_request_target"]["types"])
    job = workflow["jobs"]["locks"]
    *_, step = job["steps"]
    assert "if" not in job.keys() | step.keys()
    alice, bob = local.clone("alice"), local.clone("bob")
    alice.lfs("lock", MAP)
    base = bob.git("rev-parse", "HEAD").stdout.strip()
    bob.commit({MAP: content("bob", 1_000)})
    commit = bob.git("rev-parse", "HEAD").stdout.strip()
    # What is pushed after the event is not what its check is about.
    bob.git("update-ref", "refs/pull/1/head", base)
    bob.git("reset", "--quiet", "--hard", base)
    clone, uri = local.folder / "job", bob.path.as_uri()
    run("git", "clone", "--quiet", uri, str(clone), cwd=local.folder, environment=bob.workspace.environment)
    commands = local.folder / "commands"
    commands.mkdir()
    (commands / "towpath").write_text(f'#!/bin/sh\nexec {sys.executable} -m services.cli "$@"\n')
    (commands / "towpath").chmod(0o755)

    def checked(author: str, account_id: str) -> subprocess.CompletedProcess[str]:
        pull_request = {"head.sha": commit, "base.ref": "main", "user.login": author, "user.id": account_id}
        told = {f"${{{{ github.event.pull_request.{name} }}}}": value for name, value in pull_request.items()}
        environment = {name: told.get(value, value) for name, value in step["env"].items()}
        environment = {**bob.workspace.environment, **environment, **local.settings}
        environment["PATH"] = f"{commands}:{environment['PATH']}"
        return run("bash", "-e", "-c", step["run"], cwd=clone, environment=environment, check=False)

    done = checked("bob", "7")
    assert (done.returncode, f"{MAP}: locked by alice" in done.stderr) == (1, True), done.stderr
    done = checked("alice", "8")
    assert done.returncode == 0, done.stderr
