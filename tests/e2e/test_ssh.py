"""The real git-lfs over a real sshd: push, clone and locks, by HTTP with a token of the session and by SSH alone.

`TOWPATH_TEST_GIT_LFS` names a folder with another git-lfs, such as a newer one.
"""

import getpass
import hashlib
import json
import os
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from pydantic import SecretStr

from services.ssh.pkt_line import encode
from tests.support.folders import temporary_folder
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import content
from tests.support.ports import free_ports
from tests.support.postgres import TestPostgres
from tests.support.sshd import Sshd, running_key_sshd
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS, blocking_until

USERS = ("alice", "bob", "carol", "stranger")
MODES = (*(pytest.param(mode, marks=pytest.mark.drill) for mode in ("never", "negotiate")), "always")
MIB = 2**20
_OTHER_CLIENT = os.environ.get("TOWPATH_TEST_GIT_LFS")


@dataclass
class Site:
    """A stack whose users sign in over SSH."""

    stack: Stack
    sshd: Sshd

    @property
    def lfs_url(self) -> str:
        """The address of the demo repository over SSH."""
        return f"ssh://{getpass.getuser()}@127.0.0.1:{self.sshd.port}/demo/assets"

    def add_key(self, user: str, name: str = "default", key: str = "") -> None:
        """Give a user a key, by default the user's own."""
        self.stack.towpath("key", "add", user, str(self.sshd.folder / f"{key or user}.pub"), "--name", name)

    def remove_key(self, user: str, name: str = "default") -> None:
        """Take a key from a user."""
        self.stack.towpath("key", "remove", user, name, "--yes")

    def ssh(self, user: str, command: str, *, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """Run a command over SSH with the key of a user."""
        program = shlex.split(self.sshd.command(user))
        return subprocess.run(
            [*program, "-p", str(self.sshd.port), f"{getpass.getuser()}@127.0.0.1", command],
            input=data,
            capture_output=True,
            timeout=STEP_SECONDS,
            check=False,
        )

    def transfer(self, user: str) -> subprocess.Popen[bytes]:
        """Begin a session of `git-lfs-transfer`, and ask for its version."""
        program = shlex.split(self.sshd.command(user))
        target = ["-p", str(self.sshd.port), f"{getpass.getuser()}@127.0.0.1", "git-lfs-transfer demo/assets upload"]
        session = subprocess.Popen([*program, *target], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert session.stdin is not None
        session.stdin.write(b"000eversion 1\n0000")
        session.stdin.flush()
        return session

    def workspace(self, folder: Path, user: str, mode: str) -> Workspace:
        """Make a computer of a user without any token, whose client uses SSH in this mode."""
        made = Workspace(folder, user, None, origin=self.stack.origin)
        made.environment["GIT_SSH_COMMAND"] = self.sshd.command(user)
        if mode == "never":
            # git-lfs 3.3 has no such setting, and always tries SSH alone first.
            script = folder / "ssh"
            refused = '*git-lfs-transfer*) echo "not offered" >&2; exit 127'
            script.write_text(f'#!/bin/sh\ncase "$*" in {refused};; esac\nexec {self.sshd.command(user)} "$@"\n')
            script.chmod(0o755)
            made.environment["GIT_SSH_COMMAND"] = str(script)
        if _OTHER_CLIENT:
            made.environment["PATH"] = f"{_OTHER_CLIENT}{os.pathsep}{made.environment['PATH']}"
        made.git("config", "--global", "lfs.sshtransfer", mode)
        # A master connection is the client's affair, and would outlive the test.
        made.git("config", "--global", "lfs.ssh.automultiplex", "false")
        return made


def read_answer(session: subprocess.Popen[bytes]) -> bytes:
    """Return what the service says first, and its answer to the version."""
    assert session.stdout is not None
    return session.stdout.read(len(b"000eversion=1\n000clocking\n0000000fstatus 200\n0000"))


@contextmanager
def running_site(settings: dict[str, str], *arguments: str) -> Iterator[Site]:
    """Run a site where all but a stranger have keys that are known; carol may push to one ref."""
    with temporary_folder() as folder:
        # The account of `towpath up` makes the socket there.
        folder.chmod(0o777)
        socket = folder / "ssh.sock"
        environment = {"TOWPATH_SSH_LISTEN": str(socket), "TOWPATH_SSH_USERS": getpass.getuser(), **settings}
        with running_stack(*arguments, environment=environment) as stack, running_key_sshd(USERS, socket) as sshd:
            blocking_until(socket.exists, "the SSH service listens")
            running = Site(stack, sshd)
            stack.towpath("user", "add", "carol")
            stack.towpath("grant", "bob", "demo/assets", "--role", "write")
            stack.towpath("grant", "carol", "demo/assets", "--role", "write", "--ref", "refs/heads/carol")
            for user in ("alice", "bob", "carol"):
                running.add_key(user)
            yield running


@pytest.fixture(scope="module")
def site() -> Iterator[Site]:
    """A running site with the settings that are the default."""
    with running_site({}) as running:
        yield running


def _locks(clone: Clone, *options: str) -> Any:  # noqa: ANN401 - whatever JSON git-lfs prints
    return json.loads(clone.lfs("locks", "--json", *options).stdout)


@pytest.mark.parametrize("mode", MODES)
def test_push_clone_and_lock(site: Site, tmp_path: Path, mode: str) -> None:
    """Eight objects at once, one of several messages, and the locks of two users."""
    alice, bob = (site.workspace(tmp_path / user, user, mode) for user in ("alice", "bob"))
    remote = tmp_path / "remote.git"
    first = shared_repository(alice, remote, lfs_url=site.lfs_url)
    files = {f"{mode}/{n}.dat": content(f"{mode}-{n}", 3 * MIB + n) for n in range(8)}
    files[f"{mode}/empty.dat"] = b""
    first.commit(files)
    first.git("push")
    second = bob.clone(remote, lfs_url=site.lfs_url)
    assert {name: (second.path / name).read_bytes() for name in files} == files
    assert "OK" in second.fsck()

    path = f"{mode}/0.dat"
    first.lfs("lock", path)
    assert [lock["owner"]["name"] for lock in _locks(second, f"--path={path}")] == ["alice"]
    assert path in [lock["path"] for lock in _locks(first, "--verify")["ours"]]
    assert path in [lock["path"] for lock in _locks(second, "--verify")["theirs"]]
    taken = second.lfs("lock", path, check=False)
    assert taken.returncode != 0
    assert "alice" in taken.stdout + taken.stderr or "lock" in taken.stderr
    if mode == "always":
        # git-lfs sends no force there.
        assert "lfs.sshtransfer=never" in second.lfs("unlock", "--force", path, check=False).stderr
    second.commit({path: content("of bob", 100)})
    second.git("config", "lfs.locksverify", "true")
    pushed = second.git("push", check=False)
    assert pushed.returncode != 0
    assert "alice" in pushed.stdout + pushed.stderr
    first.lfs("unlock", path)
    second.git("push")
    assert _locks(first, f"--path={path}") == []


def test_the_objects_are_those_of_the_repository(site: Site, tmp_path: Path) -> None:
    """An object that came by SSH alone is downloaded by HTTP, and the other way round."""
    by_ssh = site.workspace(tmp_path / "ssh", "alice", "always")
    remote = tmp_path / "remote.git"
    clone = shared_repository(by_ssh, remote, lfs_url=site.lfs_url)
    clone.commit({"big.dat": content("big", 8 * MIB)})
    clone.git("push")
    by_http = Workspace(tmp_path / "http", "bob", site.stack.tokens["bob"], origin=site.stack.origin)
    other = by_http.clone(remote, lfs_url=site.stack.base_url)
    assert (other.path / "big.dat").read_bytes() == content("big", 8 * MIB)
    other.commit({"back.dat": content("back", 5 * MIB)})
    other.git("push")
    clone.git("pull", "--quiet")
    assert (clone.path / "back.dat").read_bytes() == content("back", 5 * MIB)


@pytest.mark.parametrize("mode", MODES)
def test_a_right_to_one_ref_is_a_right_to_one_ref(site: Site, tmp_path: Path, mode: str) -> None:
    """The ref of a push is known where its objects arrive, on whichever connection."""
    alice, carol = (site.workspace(tmp_path / user, user, mode) for user in ("alice", "carol"))
    remote = tmp_path / "remote.git"
    shared_repository(alice, remote, lfs_url=site.lfs_url)
    clone = carol.clone(remote, lfs_url=site.lfs_url)
    clone.git("switch", "--quiet", "--create", "carol")
    clone.commit({f"{mode}-{n}.dat": content(f"carol-{mode}-{n}", 1000 + n) for n in range(10)})
    clone.git("push")
    clone.git("switch", "--quiet", "--create", "other")
    clone.commit({"more.dat": content(f"more-{mode}", 1000)})
    refused = clone.git("push", check=False)
    assert refused.returncode != 0
    assert "refs/heads/carol" in refused.stderr


@pytest.mark.drill
def test_a_site_may_offer_authenticate_alone(tmp_path: Path) -> None:
    """The client hears a clean failure, and goes on by HTTP."""
    with running_site({"TOWPATH_SSH_TRANSFER": "false"}) as site:
        refused = site.ssh("alice", "git-lfs-transfer demo/assets upload")
        assert (refused.returncode, refused.stdout) == (127, b"")
        assert refused.stderr == b"towpath: expected git-lfs-authenticate, got another command\n"
        alice = site.workspace(tmp_path / "alice", "alice", "negotiate")
        clone = shared_repository(alice, tmp_path / "remote.git", lfs_url=site.lfs_url)
        clone.commit({"one.dat": content("one", 1000)})
        clone.git("push")
        other = alice.clone(tmp_path / "remote.git", lfs_url=site.lfs_url)
        assert (other.path / "one.dat").read_bytes() == content("one", 1000)


@pytest.mark.drill
def test_one_user_has_a_quarter_of_the_sessions() -> None:
    """By however many keys; the metrics tell what runs and what came of the rest."""
    [port] = free_ports(1)
    settings = {"TOWPATH_SSH_SESSIONS": "4", "TOWPATH_SSH_METRICS_LISTEN": f"127.0.0.1:{port}"}

    def told() -> str:
        return httpx.get(f"http://127.0.0.1:{port}/metrics").text

    with running_site(settings) as site:
        site.add_key("alice", "second", "stranger")
        with site.transfer("alice") as first:
            assert read_answer(first).endswith(b"000fstatus 200\n0000")
            turned_away = site.ssh("stranger", "git-lfs-transfer demo/assets upload")
            assert turned_away.returncode == 1
            assert turned_away.stderr == b"towpath: too many sessions over SSH of one user; try again later\n"
            with site.transfer("bob") as other:
                assert read_answer(other).endswith(b"000fstatus 200\n0000")
                assert "towpath_ssh_sessions_in_flight 2.0" in told().splitlines()
                other.kill()
            first.communicate(_said("batch", "|", "x 1") + _said("quit"), timeout=STEP_SECONDS)
            assert first.returncode == 0
        lines = {
            'towpath_ssh_sessions_total{program="git-lfs-transfer",result="completed"} 1.0',
            'towpath_ssh_sessions_total{program="git-lfs-transfer",result="disconnected"} 1.0',
            'towpath_ssh_sessions_total{program="git-lfs-transfer",result="turned_away"} 1.0',
            'towpath_ssh_commands_refused_total{status="400"} 1.0',
            "towpath_ssh_sessions_in_flight 0.0",
        }
        blocking_until(lambda: lines <= set(told().splitlines()), "the sessions are counted")
        assert httpx.get(f"http://127.0.0.1:{port}/readyz").status_code == 200


def test_authenticate_gives_a_token_of_the_user(site: Site) -> None:
    """As long as an action lives, and not for a program that wants a shell."""
    answered = site.ssh("alice", "git-lfs-authenticate /demo/assets.git download")
    assert answered.returncode == 0, answered.stderr
    answer = json.loads(answered.stdout)
    assert answer["expires_in"] == 3600
    locks = httpx.get(f"{answer['href']}/locks", headers=answer["header"])
    assert locks.status_code == 200
    assert not site.stack.towpath("token", "list", "alice") or all(
        not token["name"].startswith("ssh") for token in site.stack.towpath("token", "list", "alice")
    )


# More of them are in tests/unit/ssh/test_command.py.
@pytest.mark.parametrize(
    "command",
    [
        "",
        "sh",
        "git-lfs-transfer demo/assets upload; id",
        "git-lfs-transfer demo/assets 'up\nload'",
        "git-lfs-authenticate " + "a/" * 3000 + " download",
        "x" * 20_000,
    ],
    ids=lambda command: command[:40] or "none",
)
def test_other_commands_are_refused(site: Site, command: str) -> None:
    """The message is one line on the standard error, and nothing is on the standard output."""
    refused = site.ssh("alice", command)
    assert refused.returncode not in (0, 255)
    assert refused.stdout == b""
    assert refused.stderr.startswith(b"towpath: ")
    assert refused.stderr.count(b"\n") == 1


def test_a_key_that_nobody_has_opens_nothing(site: Site) -> None:
    """Neither does a user get in by the key of another."""
    refused = site.ssh("stranger", "git-lfs-authenticate demo/assets download")
    assert refused.returncode == 255
    assert b"Permission denied" in refused.stderr


def test_a_removed_key_ends_everything_of_it(site: Site) -> None:
    """The next command, a token that it has given, and a session that goes on."""
    site.add_key("alice", "second", "stranger")
    answered = site.ssh("stranger", "git-lfs-authenticate demo/assets upload")
    answer = json.loads(answered.stdout)
    locks = f"{answer['href']}/locks"
    assert httpx.get(locks, headers=answer["header"]).status_code == 200
    with site.transfer("stranger") as session:
        assert read_answer(session).endswith(b"000fstatus 200\n0000")
        assert session.stdin is not None
        assert session.stdout is not None
        read: Callable[[int], bytes] = session.stdout.read
        site.remove_key("alice", "second")
        blocking_until(lambda: httpx.get(locks, headers=answer["header"]).status_code == 401, "the token ends")
        session.stdin.write(b"000elist-lock\n0000")
        session.stdin.flush()
        assert read(len(b"000fstatus 401\n")) == b"000fstatus 401\n"
        session.stdin.close()
    again = site.ssh("stranger", "git-lfs-authenticate demo/assets upload")
    assert again.returncode == 255
    assert b"Permission denied" in again.stderr


@pytest.mark.drill
async def test_a_session_outlives_its_token(postgres: TestPostgres, database_url: SecretStr) -> None:
    """A push may take longer than a token lives; the key's removal ends the session all the same."""
    url = database_url.get_secret_value()
    with running_site({}, "--demo", f"--database-url={url}") as site, site.transfer("alice") as session:
        assert read_answer(session).endswith(b"000fstatus 200\n0000")
        answer = json.loads(site.ssh("alice", "git-lfs-authenticate demo/assets upload").stdout)
        expire = "UPDATE locks.tokens SET expires_at = now() WHERE ssh_key_id IS NOT NULL"
        await postgres.execute(expire, database=urlsplit(url).path[1:])
        # Facades look at all tokens anew after any revocation.
        site.remove_key("bob")
        locks = f"{answer['href']}/locks"
        blocking_until(lambda: httpx.get(locks, headers=answer["header"]).status_code == 401, "the token has expired")
        assert session.stdin is not None
        assert session.stdout is not None
        session.stdin.write(_said(f"verify-object {'0' * 64}", "size=5"))
        session.stdin.flush()
        assert session.stdout.read(len(b"000fstatus 404\n")) == b"000fstatus 404\n"
        site.remove_key("alice")
        site.add_key("bob", "second", "alice")
        rest, _ = session.communicate(_said("list-lock") + _said("quit"), timeout=STEP_SECONDS)
        assert _statuses(rest) == [401, 200]


@pytest.mark.drill
def test_many_sessions_at_once(site: Site) -> None:
    """Eight connections are what a client opens; two clients do at once."""
    # Keys that are new, because a token is shared for five minutes, which may end here for sessions of other tests.
    for user in USERS[:2]:
        site.remove_key(user)
        site.add_key(user)
    with ThreadPoolExecutor(16) as pool:
        asked = [pool.submit(site.ssh, user, "git-lfs-authenticate demo/assets upload") for user in USERS[:2] * 8]
        answered = [future.result() for future in asked]
    assert {one.returncode for one in answered} == {0}
    # Those of a user that begin together share one token.
    assert len({json.loads(one.stdout)["header"]["Authorization"] for one in answered}) == 2


def _said(*lines: str | bytes) -> bytes:
    """Return a message: lines, `|` for the delimiter, bytes for data, and the flush."""
    parts = [
        b"0001" if line == "|" else encode(line.encode() + b"\n" if isinstance(line, str) else line) for line in lines
    ]
    return b"".join(parts) + b"0000"


def _statuses(output: bytes) -> list[int]:
    return [int(found) for found in re.findall(rb"000fstatus (\d{3})\n", output)]


def test_wrong_input_is_refused_and_the_session_goes_on(site: Site) -> None:
    """A wrong object is never stored, and the next command is answered."""
    data = content("raw", 200_000)
    oid, other = hashlib.sha256(data).hexdigest(), hashlib.sha256(b"other").hexdigest()
    parts = [data[begin : begin + 60_000] for begin in range(0, len(data), 60_000)]
    size = f"size={len(data)}"
    asked = {
        _said("batch"): 400,
        _said("version 2"): 400,
        _said("version 1"): 200,
        _said("batch", "|", f"{oid} -1"): 400,
        _said("batch", "|", f"../../etc/passwd {len(data)}"): 400,
        _said("batch", "hash-algo=sha1", "|", f"{oid} {len(data)}"): 409,
        _said("batch", "transfer=ssh", "unknown=x", "|", f"{oid} {len(data)} a=b"): 200,
        _said(f"get-object {oid}", size): 404,
        _said("unknown-command", "|", "x"): 404,
        _said(f"put-object {other}", size, "|", *parts): 400,
        _said(f"put-object {oid}", size, "|", *parts[:-1]): 400,
        _said(f"put-object {oid}", size, "|", *parts, b"x"): 400,
        _said(f"put-object {oid}", "size=x", "|", *parts): 400,
        _said(f"put-object {oid}", "|", *parts): 400,
        _said(f"put-object {oid}", size, f"id={len(data) + 1}.", "|", *parts): 400,
        _said(f"put-object {oid}", size, "id=%%%.%%%", "|", *parts): 400,
        _said(f"put-object {oid}", size): 400,
        _said("put-object ../x", size, "|", *parts): 400,
        _said(f"verify-object {oid}", size): 404,
        _said(f"put-object {oid}", size, "token=http://169.254.169.254/", "|", *parts): 200,
        _said(f"verify-object {oid} {len(data)}"): 200,
        _said(f"put-object {oid}", size, "|", *parts): 200,
        _said("lock", "path="): 400,
        _said("lock", "path=../../x\0"): 422,
        _said("unlock ../../objects/batch"): 400,
        _said("unlock .."): 400,
        _said("unlock 999999999", "force=true"): 404,
        _said("list-lock", "cursor=nonsense"): 422,
        _said("list-lock", f"path={'x' * 60_000}"): 431,
        _said("list-lock", "limit=1", "refspec=refs/heads/main"): 200,
        _said("quit"): 200,
    }
    session = site.ssh("alice", "git-lfs-transfer demo/assets upload", data=b"".join(asked))
    assert _statuses(session.stdout) == list(asked.values()), session.stdout[-3000:]
    assert session.returncode == 0
    got = site.ssh(
        "alice",
        "git-lfs-transfer demo/assets download",
        data=_said("version 1")
        + _said(f"get-object {oid}", size)
        + _said(f"get-object {other}", "size=5")
        + _said("quit"),
    )
    assert _statuses(got.stdout) == [200, 200, 404, 200]
    assert data[:1000] in got.stdout


@pytest.mark.parametrize(
    "data",
    [b"GET / HTTP/1.1\r\n\r\n", b"ffffxx", _said("version 1") + b"0002", _said("version 1") + b"0000", _said(b"\xff")],
    ids=lambda data: repr(data[:20]),
)
def test_what_is_no_protocol_ends_the_session(site: Site, data: bytes) -> None:
    """With a status for the client, and a message for its user."""
    session = site.ssh("alice", "git-lfs-transfer demo/assets upload", data=data)
    assert session.returncode == 1
    assert _statuses(session.stdout)[-1] == 400
    assert session.stderr.startswith(b"towpath: expected ")


@pytest.mark.parametrize("cut", [b"", b"00", _said("version 1"), _said("version 1") + b"0010put-obj"], ids=repr)
def test_a_cut_session_ends(site: Site, cut: bytes) -> None:
    """Nothing waits for a client that is gone."""
    session = site.ssh("alice", "git-lfs-transfer demo/assets upload", data=cut)
    assert session.returncode == 1
    assert b"closed its input" in session.stderr


def test_a_repository_that_the_user_may_not_see_is_not_there(site: Site) -> None:
    """As over HTTP."""
    commands = _said("version 1") + _said("batch", "|", f"{'0' * 64} 1") + _said("list-lock") + _said("quit")
    session = site.ssh("alice", "git-lfs-transfer studio/other download", data=commands)
    assert _statuses(session.stdout) == [200, 404, 403, 200]
