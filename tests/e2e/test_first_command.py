"""`towpath up --demo`, the first command, works wherever a newcomer stands, as root and as an ordinary user."""

import json
import os
import pwd
import re
import secrets
import shutil
import socket
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil
import pytest

from tests.support.commands import finished
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.installation import Installation, remove
from tests.support.interpreters import OLDEST, RUNNING, Interpreter, PackagesMissing, interpreters
from tests.support.privileges import privileged, users_of
from tests.support.stack import Stack, processes_of
from tests.support.starters import Starter, can_mount, ordinary_user, ourselves

START_SECONDS = 300
"""The time that a start may take on a host with much else to do, copies of the installation included."""
STOP_SECONDS = 60
VERSIONS = [(3, minor) for minor in range(11, 16)]
FILE = "cover.dat"

pytestmark = pytest.mark.timeout(3 * START_SECONDS)


@dataclass
class Place:
    """A folder for one test, and who stands in it."""

    folder: Path
    starter: Starter
    computer: Path
    """The folder of the users' computers."""
    installation: Installation
    started: list[Stack] = field(default_factory=list)

    def make(self, name: str, mode: int = 0o755) -> Path:
        """Make a folder of the starter's."""
        folder = self.folder / name
        folder.mkdir(parents=True)
        folder.chmod(mode)
        self.starter.own(folder)
        return folder

    def command(
        self,
        *,
        installation: Installation | None = None,
        umask: int = 0o022,
        without: Sequence[str] = (),
        environment: dict[str, str] | None = None,
        read_only: Sequence[Path] = (),
    ) -> tuple[str, ...]:
        """Return what runs `towpath` here; by default of the installation that every user may read."""
        chosen = installation or self.installation
        home = {} if self.starter.is_root or "HOME" in without else {"HOME": str(self.folder)}
        return self.starter.command(
            *chosen.command,
            folder=chosen.checkout,
            umask=umask,
            without=without,
            environment={**home, **chosen.environment, **(environment or {})},
            read_only=read_only,
        )

    def stack(
        self,
        data: Path,
        *arguments: str,
        command: tuple[str, ...] | None = None,
        listen: str = "127.0.0.1:0",
    ) -> Stack:
        """Return a `towpath up --demo` that is stopped at the end of the test if it still runs."""
        stack = Stack(data, ("--demo", *arguments), command=command or self.command(), listen=listen)
        self.started.append(stack)
        return stack

    def locks_and_stops(self, stack: Stack) -> None:
        """Start it, lock a file with the real git-lfs, see what it runs as, and stop it."""
        stack.start(seconds=START_SECONDS)
        self.sees_a_lock_of_git_lfs(stack)
        self.stops(stack)

    def sees_a_lock_of_git_lfs(self, stack: Stack) -> None:
        """Push and lock a file with the real git-lfs, as alice."""
        clone = self.alices(stack)
        name = f"{secrets.token_hex(4)}.dat"
        clone.commit({name: os.urandom(10_000)})
        clone.git("push", "--quiet")
        clone.lfs("lock", name)
        assert (name, "alice") in locks(clone)

    def alices(self, stack: Stack) -> Clone:
        """Return alice's clone of a new repository."""
        computer = Path(tempfile.mkdtemp(dir=self.computer))
        alice = Workspace(computer / "alice", "alice", stack.tokens["alice"], origin=stack.origin)
        return shared_repository(alice, computer / "remote.git", lfs_url=stack.base_url)

    def stops(self, stack: Stack) -> None:
        """Look at its processes and its files, and stop it: with exit status 0, and no process left."""
        processes = stack.processes()
        if self.starter.is_root:
            assert privileged(processes) == []
        else:
            assert users_of(processes) == {self.starter.uid}
        (user,) = users_of(processes)
        private = [stack.data, *(stack.data / name for name in ("admin-token", "signing-key", "demo.json"))]
        assert [path.stat().st_mode & 0o777 for path in private] == [0o700, 0o600, 0o600, 0o600]
        assert {path.stat().st_uid for path in (stack.data, *stack.data.iterdir())} == {user}
        assert stack.stop(seconds=STOP_SECONDS) == 0
        _, alive = psutil.wait_procs(processes, timeout=STOP_SECONDS)
        assert not alive
        assert processes_of(stack.data) == []

    def refused(self, data: Path, *arguments: str) -> str:
        """Run a `towpath up` that does not come up, and return the line that it ends with."""
        done = finished([*self.command(), "up", "--demo", "--data", str(data), *arguments], seconds=START_SECONDS)
        assert (done.returncode, done.stdout) == (1, ""), done.stderr
        line = done.stderr.splitlines()[-1]
        assert line.startswith("towpath: ")
        return line.removeprefix("towpath: ")


def locks(clone: Clone) -> list[tuple[str, str]]:
    """Return the path and the owner of each lock, as git-lfs lists them."""
    return [(lock["path"], lock["owner"]["name"]) for lock in json.loads(clone.lfs("locks", "--json").stdout)]


def give(folder: Path, uid: int, gid: int) -> None:
    """Give a folder with all in it to a user."""
    for path in (folder, *folder.rglob("*")):
        os.lchown(path, uid, gid)


def copies_of(stack: Stack) -> set[Path]:
    """Return the copies of an installation that a `towpath up` has made, as its log names them."""
    return {Path(name) for name in re.findall(r'"copy": ?"([^"]+)"', stack.log())}


def interpreter(version: tuple[int, int]) -> Interpreter:
    """Return the Python of a version, which this host has."""
    return interpreters()[version]


@contextmanager
def open_folder() -> Iterator[Path]:
    """A folder that every user of this host may enter, as one of pytest's is not."""
    folder = Path(tempfile.mkdtemp(prefix="towpath-test-")).resolve()
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        remove(folder)


@pytest.fixture(scope="package")
def common() -> Iterator[Installation]:
    """An installation that every user of this host may read and nobody may write to, for all tests that need no own."""
    chosen = interpreter(RUNNING)
    with open_folder() as folder:
        yield Installation.make(folder / "towpath", chosen, with_python=not chosen.is_open)


@pytest.fixture(scope="package")
def user() -> Iterator[Starter]:
    """An ordinary user of this host."""
    with ordinary_user() as starter:
        yield starter


@pytest.fixture(params=["root", pytest.param("user", marks=pytest.mark.drill)])
def starter(request: pytest.FixtureRequest, user: Starter) -> Starter:
    """Whoever starts Towpath."""
    if request.param == "user":
        return user
    if os.geteuid() != 0:
        pytest.skip("only root can start it as root")
    return ourselves()


@contextmanager
def standing(starter: Starter, common: Installation, computer: Path) -> Iterator[Place]:
    """A folder of the starter's; what was started in it is ended with it."""
    with open_folder() as folder:
        place = Place(folder, starter, computer, common)
        starter.own(folder)
        try:
            yield place
        finally:
            started = [stack for stack in place.started if stack.process is not None]
            for stack in started:
                if stack.process is not None and stack.process.poll() is None:
                    stack.stop(seconds=STOP_SECONDS)
            for copy in {copy for stack in started for copy in copies_of(stack)}:
                shutil.rmtree(copy, ignore_errors=True)


@pytest.fixture
def place(starter: Starter, common: Installation, tmp_path: Path) -> Iterator[Place]:
    """Yield the place of the starter."""
    with standing(starter, common, tmp_path) as place:
        yield place


@pytest.fixture
def roots(common: Installation, tmp_path: Path) -> Iterator[Place]:
    """Yield the place of root."""
    if os.geteuid() != 0:
        pytest.skip("only root can start it as root")
    with standing(ourselves(), common, tmp_path) as place:
        yield place


@pytest.mark.parametrize("what", ["the data folder", pytest.param("everything", marks=pytest.mark.drill)])
def test_below_a_folder_that_only_its_owner_may_enter(place: Place, what: str) -> None:
    """Root's home folder is one: Python, the checkout and the data in it serve all the same."""
    closed = place.make("closed", 0o700)
    command = place.command()
    if what == "everything":
        installation = Installation.make(closed / "towpath", interpreter(RUNNING), with_python=True)
        installation.own(place.starter.uid, place.starter.gid)
        command = place.command(installation=installation)
    place.locks_and_stops(place.stack(closed / "var", command=command))
    assert closed.stat().st_mode & 0o777 == 0o700, "what was closed stays so"


@pytest.mark.drill
def test_below_a_path_with_spaces_and_other_letters(place: Place) -> None:
    """People name folders in their own language."""
    strange = place.make("Größe, 尺寸 und Übergröße")
    installation = Installation.make(strange / "my towpath", interpreter(RUNNING), with_python=True)
    installation.own(place.starter.uid, place.starter.gid)
    command = place.command(installation=installation)
    place.locks_and_stops(place.stack(strange / "data of é", command=command))


@pytest.mark.drill
def test_in_a_checkout_that_is_read_only(place: Place) -> None:
    """An administrator may have installed Towpath read-only, so it writes to the data folder alone."""
    installation = Installation.make(place.folder / "towpath", interpreter(RUNNING), with_python=True)
    installation.own(place.starter.uid, place.starter.gid)
    installation.make_read_only(installation.checkout, installation.python.parents[1])
    mounted: list[Path] = []
    if place.starter.is_root:
        # Modes alone do not keep root from writing.
        if not can_mount(installation.folder):
            pytest.skip("this host lets nobody mount a folder read-only")
        mounted.append(installation.folder)
    command = place.command(installation=installation, read_only=mounted)
    place.locks_and_stops(place.stack(place.make("elsewhere") / "var", command=command))


@pytest.mark.drill
def test_without_a_home(place: Place) -> None:
    """A service manager and a container set no HOME."""
    place.locks_and_stops(place.stack(place.folder / "var", command=place.command(without=["HOME"])))


@pytest.mark.drill
def test_with_a_home_that_is_read_only(place: Place) -> None:
    """Nothing is kept in the home folder."""
    home = place.make("home", 0o555)
    if place.starter.is_root and not can_mount(home):
        pytest.skip("this host lets nobody mount a folder read-only")
    command = place.command(environment={"HOME": str(home)}, read_only=[home] if place.starter.is_root else [])
    place.locks_and_stops(place.stack(place.folder / "var", command=command))


@pytest.mark.parametrize("umask", [0o077, 0o000], ids=["077", "000"])
@pytest.mark.drill
def test_under_a_umask(place: Place, umask: int) -> None:
    """A strict one closes the checkout to the account, and a lax one opens no secret to others."""
    chosen = interpreter(RUNNING)
    installation = Installation.make(place.folder / "towpath", chosen, with_python=not chosen.is_open)
    installation.own(place.starter.uid, place.starter.gid, closed=umask == 0o077)
    command = place.command(installation=installation, umask=umask)
    place.locks_and_stops(place.stack(place.folder / "var", command=command))


@pytest.mark.drill
def test_with_temporary_files_on_another_file_system(place: Place) -> None:
    """No file is moved from there by its name; sockets lie there where the data folder's path is none for them."""
    memory = Path("/dev/shm")  # noqa: S108 - a folder of our own is made in it
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == place.folder.stat().st_dev:
        pytest.skip("this host has no file system in memory")
    with tempfile.TemporaryDirectory(dir=memory, prefix="towpath-test-") as folder:
        place.starter.own(Path(folder))
        command = place.command(environment={"TMPDIR": folder})
        place.locks_and_stops(place.stack(place.make("with a space") / "var", command=command))


@pytest.mark.drill
def test_in_a_locale_without_utf_8(place: Place) -> None:
    """Names of files are bytes, and no text depends on the locale."""
    command = place.command(environment={"LC_ALL": "C", "LANG": "C"}, without=["LC_CTYPE", "PYTHONUTF8"])
    place.locks_and_stops(place.stack(place.make("größe") / "var", command=command))


@pytest.mark.drill
def test_without_setpriv(place: Place) -> None:
    """Slim containers have no such program."""
    programs = place.make("programs")
    for folder in map(Path, os.get_exec_path()):
        for program in folder.iterdir() if folder.is_dir() else ():
            if program.name != "setpriv" and not os.path.lexists(programs / program.name):
                (programs / program.name).symlink_to(program)
    assert shutil.which("setpriv", path=programs) is None
    place.locks_and_stops(place.stack(place.folder / "var", command=place.command(environment={"PATH": str(programs)})))


@pytest.mark.drill
def test_on_a_host_with_ipv6_only(place: Place) -> None:
    """It needs no address of the older kind."""
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this host has no IPv6")
    place.locks_and_stops(place.stack(place.folder / "var", listen="[::1]:0"))


@pytest.mark.parametrize("version", VERSIONS, ids=lambda version: f"{version[0]}.{version[1]}")
@pytest.mark.drill
def test_with_the_oldest_and_the_newest_python(place: Place, version: tuple[int, int]) -> None:
    """Whoever has any Python from the oldest that is promised to the newest need not look for another."""
    newest = max(interpreters())
    if version not in interpreters():
        pytest.skip(f"this host has no Python {version[0]}.{version[1]}, and no package brings one")
    if version not in (OLDEST, newest):
        pytest.skip("it is neither the oldest nor the newest Python of this host")
    chosen = interpreter(version)
    # Root's own Python, such as one of pyenv, is used where it is.
    with_python = not (chosen.is_open or place.starter.is_root)
    try:
        installation = Installation.make(place.folder / "towpath", chosen, with_python=with_python)
    except PackagesMissing as error:
        pytest.skip(f"the packages cannot be had: {error}")
    place.locks_and_stops(place.stack(place.folder / "var", command=place.command(installation=installation)))


@pytest.mark.drill
def test_a_second_one(place: Place) -> None:
    """On the same data it is told who has it, beside it on other data it works, and the first goes on meanwhile."""
    first = place.stack(place.folder / "var")
    first.start(seconds=START_SECONDS)
    assert first.process is not None
    line = place.refused(first.data, "--listen=127.0.0.1:0")
    assert f"another `towpath up` works on it (process {first.process.pid})" in line
    assert str(first.data) in line
    place.locks_and_stops(place.stack(place.folder / "other"))
    place.sees_a_lock_of_git_lfs(first)
    place.stops(first)


def test_an_account_that_there_is_not(place: Place) -> None:
    """A start that cannot run as another account must say so in one line, and leave no data folder behind."""
    line = place.refused(place.folder / "var", "--listen=127.0.0.1:0", "--user=nosuchuser")
    assert "nosuchuser" in line
    assert not (place.folder / "var").exists()


@pytest.mark.drill
def test_data_of_the_previous_version(roots: Place) -> None:
    """Root's data, of which Postgres was nobody's, goes on being served: nothing is lost, and nobody moves anything."""
    stack = roots.stack(roots.folder / "var")
    stack.start(seconds=START_SECONDS)
    clone = roots.alices(stack)
    data = os.urandom(10_000)
    clone.commit({FILE: data})
    clone.git("push", "--quiet")
    clone.lfs("lock", FILE)
    tokens = stack.tokens
    roots.stops(stack)
    nobody = pwd.getpwnam("nobody")
    give(stack.data, 0, 0)
    give(stack.data / "postgres", nobody.pw_uid, nobody.pw_gid)
    stack.start(seconds=START_SECONDS)
    assert stack.tokens == tokens
    assert locks(clone) == [(FILE, "alice")]
    again = clone.workspace.clone(Path(clone.git("remote", "get-url", "origin").stdout.strip()), lfs_url=stack.base_url)
    assert (again.path / FILE).read_bytes() == data
    roots.stops(stack)


@pytest.mark.drill
def test_data_that_an_ordinary_user_has_made(roots: Place, user: Starter) -> None:
    """Root who starts it on another's data leaves them theirs: it runs as that user, who can start it again."""
    users = replace(roots, starter=user)
    user.own(roots.folder)
    stack = users.stack(roots.folder / "var")
    users.locks_and_stops(stack)
    stack.command = roots.command()
    stack.start(seconds=START_SECONDS)
    assert users_of(stack.processes()) == {user.uid}
    roots.stops(stack)
    stack.command = users.command()
    users.locks_and_stops(stack)
