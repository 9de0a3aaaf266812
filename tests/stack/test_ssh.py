"""The profile `ssh`: the real client over the published port, the identity of the server, and the containers."""

import json
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import httpx
import pytest

from tests.stack.compose import ComposeStack, docker
from tests.stack.conftest import free_ports, scaled
from tests.stack.rights import published_hosts, random_texts, require_no_privileges, require_only_volumes_written
from tests.stack.scrape import require_metrics
from tests.stack.work import CREW, REPOSITORY
from tests.support.git import Workspace, shared_repository
from tests.support.http import content
from tests.support.programs import needed
from tests.support.sshd import make_key
from tests.support.waiting import STEP_SECONDS

CONTAINERS = ("ssh", "sshd")
VOLUMES = ("ssh-socket", "ssh-host-keys")


@dataclass
class Site:
    """A stack with the profile, and the folder with the keys of its users."""

    stack: ComposeStack
    folder: Path
    port: int
    origin: str

    @property
    def lfs_url(self) -> str:
        """The address of the repository over SSH."""
        return f"ssh://git@127.0.0.1:{self.port}/{REPOSITORY}"

    def add_key(self, user: str) -> None:
        """Make a key pair for a user, and have an administrator add it as docs/identity.md says."""
        key = self.folder / user
        make_key(key)
        self.stack.shell(f"docker compose exec -T locks towpath key add {user} - < {key}.pub")

    def host_keys(self) -> list[str]:
        """Return the lines of known_hosts that the server's keys make."""
        command = [needed("ssh-keyscan"), "-p", str(self.port), "127.0.0.1"]
        scanned = subprocess.run(command, capture_output=True, text=True, timeout=STEP_SECONDS, check=True)
        return sorted(scanned.stdout.splitlines())

    def program(self, user: str) -> list[str]:
        """Return what git runs to connect as a user, who trusts the keys that the server had at first."""
        options = (f"UserKnownHostsFile={self.folder / 'known_hosts'}", "StrictHostKeyChecking=yes", "BatchMode=yes")
        arguments = [argument for option in (*options, "IdentitiesOnly=yes") for argument in ("-o", option)]
        return [needed("ssh"), "-F", "none", "-i", str(self.folder / user), *arguments]

    def ssh(self, user: str, command: str) -> subprocess.CompletedProcess[str]:
        """Run a command over SSH with the key of a user."""
        target = ["-p", str(self.port), "git@127.0.0.1", command]
        return subprocess.run(
            [*self.program(user), *target],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            text=True,
            timeout=STEP_SECONDS,
            check=False,
        )

    def computer(self, home: Path, user: str) -> Workspace:
        """Return a computer of a user who has no token."""
        workspace = Workspace(home, user, None, origin=self.origin)
        workspace.environment["GIT_SSH_COMMAND"] = " ".join(self.program(user))
        # A master connection would outlive the test.
        workspace.git("config", "--global", "lfs.ssh.automultiplex", "false")
        return workspace


@pytest.fixture(scope="module")
def site(stack: ComposeStack, tokens: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A running site, with two users who have keys."""
    assert tokens
    scaled(stack, facade=1, storage=1, locks=1)
    port = free_ports(1)
    origin = f"http://{stack.address('facade', 8080)}"
    settings = {**stack.settings, "TOWPATH_SSH_PUBLISH": f"127.0.0.1:{port}", "TOWPATH_PUBLIC_URL": origin}
    with_ssh = replace(stack, settings=settings, profiles=(*stack.profiles, "ssh"))
    try:
        # Those that run stay as they are, so that other tests find them so.
        with_ssh.compose("up", "--build", "--detach", "--wait", "--no-deps", *CONTAINERS, seconds=600)
        made = Site(with_ssh, tmp_path_factory.mktemp("ssh"), port, origin)
        (made.folder / "known_hosts").write_text("\n".join(made.host_keys()) + "\n")
        for user in CREW[:2]:
            made.add_key(user)
        yield made
    finally:
        with_ssh.compose("rm", "--stop", "--force", *CONTAINERS)
        # The end of the stack removes the volumes of its own profiles alone.
        docker("volume", "rm", *(f"{stack.project}_{volume}" for volume in VOLUMES), check=False)


def test_walk(site: Site, tmp_path: Path) -> None:
    """A push of more objects than a client has connections, locks and a clone: without a token, through SSH alone."""
    first, second = CREW[:2]
    clone = shared_repository(site.computer(tmp_path / first, first), tmp_path / "film.git", lfs_url=site.lfs_url)
    files = {f"ssh/{number}.dat": content(f"ssh {number}", 2_000_000) for number in range(12)}
    clone.commit(files)
    clone.git("push", "origin", "main")
    path = "ssh/0.dat"
    assert f"Locked {path}" in clone.lfs("lock", path).stdout
    other = site.computer(tmp_path / second, second).clone(tmp_path / "film.git", lfs_url=site.lfs_url)
    other.fsck()
    assert {name: (other.path / name).read_bytes() for name in files} == files
    other.git("config", "lfs.locksverify", "true")
    other.commit({path: b"changed"})
    halted = other.git("push", "origin", "main", check=False)
    assert halted.returncode != 0
    assert first in halted.stdout + halted.stderr
    assert f"Unlocked {path}" in clone.lfs("unlock", path).stdout
    other.git("push", "origin", "main")
    told = require_metrics(site.stack, "ssh")
    assert 'towpath_ssh_sessions_total{program="git-lfs-transfer",result="completed"}' in told


def test_a_token_for_http(site: Site) -> None:
    """The address that `git-lfs-authenticate` names is the public one, and the token is the user's."""
    answered = site.ssh(CREW[0], f"git-lfs-authenticate {REPOSITORY} upload")
    assert answered.returncode == 0, answered.stderr
    answer = json.loads(answered.stdout)
    assert answer["href"] == f"{site.origin}/{REPOSITORY}"
    assert httpx.get(f"{answer['href']}/locks", headers=answer["header"], trust_env=False).status_code == 200


def test_only_the_command_is_offered(site: Site) -> None:
    """There is no shell, and no way into the networks of the stack."""
    shell = site.ssh(CREW[0], "id")
    assert (shell.returncode, shell.stdout) == (127, "")
    target = ["-p", str(site.port), "-W", "facade:8080", "git@127.0.0.1"]
    forwarded = subprocess.run(
        [*site.program(CREW[0]), *target],
        input=b"GET /healthz HTTP/1.0\r\n\r\n",
        capture_output=True,
        timeout=STEP_SECONDS,
        check=False,
    )
    assert forwarded.returncode != 0
    assert forwarded.stdout == b""


def test_the_containers_have_no_rights(site: Site) -> None:
    """As those of every service, and while a session runs."""
    target = ["-p", str(site.port), "git@127.0.0.1", f"git-lfs-transfer {REPOSITORY} download"]
    with subprocess.Popen([*site.program(CREW[0]), *target], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as session:
        assert session.stdout is not None
        assert session.stdout.read(len(b"000eversion=1\n")) == b"000eversion=1\n"
        containers = {service: site.stack.containers(service)[0] for service in CONTAINERS}
        assert "serve" in docker("top", containers["sshd"], "-eo", "pid,args")
        for container in containers.values():
            require_no_privileges(container)
            require_only_volumes_written(container)
        session.kill()
    assert {service: published_hosts(container) for service, container in containers.items()} == {
        "ssh": set(),
        "sshd": {"127.0.0.1"},
    }
    told = site.stack.log(*CONTAINERS) + "".join(docker("inspect", container) for container in containers.values())
    assert [text for text in random_texts(site.stack) if text in told] == []


def test_the_server_stays_itself(site: Site) -> None:
    """A container that is made anew has the host keys of the one before, which clients go on to trust."""
    before = site.host_keys()
    assert len(before) == 3
    [old] = site.stack.containers("sshd")
    site.stack.compose("up", "--detach", "--wait", "--no-deps", "--force-recreate", "sshd")
    assert site.stack.containers("sshd") != [old]
    assert site.host_keys() == before
    assert site.ssh(CREW[0], f"git-lfs-authenticate {REPOSITORY} download").returncode == 0


def test_a_removed_key_is_refused(site: Site) -> None:
    """At the next command, and the other user's is not."""
    command = f"git-lfs-authenticate {REPOSITORY} download"
    assert site.ssh(CREW[1], command).returncode == 0
    site.stack.towpath("key", "remove", CREW[1], "default", "--yes")
    refused = site.ssh(CREW[1], command)
    assert refused.returncode == 255
    assert "Permission denied" in refused.stderr
    assert site.ssh(CREW[0], command).returncode == 0
