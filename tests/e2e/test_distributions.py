"""The wheel and the sdist of a release: their contents, the same bytes from each build, and the walk from either."""

import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.commands import finished
from tests.support.folders import temporary_folder
from tests.support.git import Workspace, run
from tests.support.outside import ROOT, Distributions, Outside
from tests.support.snippets import replaced, snippet
from tests.support.stack import Stack, running
from tests.support.waiting import LONG_SECONDS

pytestmark = pytest.mark.drill

COMMIT_SECONDS = 1_790_000_000
LEFT_OVER = Path("services", "left_over.py")


def of_the_checkout() -> set[str]:
    """Return the files that git knows of or would add."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    done = finished(command)
    if done.returncode:
        pytest.skip("this checkout is no git repository")
    return {name for name in done.stdout.split("\0") if (ROOT / name).is_file()}


def unpacked(sdist: Path, folder: Path) -> Path:
    """Unpack an sdist into a folder, and return the one that it has in it."""
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run(["tar", "--extract", f"--file={sdist}", f"--directory={folder}"], check=True, timeout=LONG_SECONDS)
    (found,) = folder.iterdir()
    return found


def test_the_wheel_has_every_file_of_the_services(wheel: Path) -> None:
    """Migrations, templates and whatever a page needs are in it, and what the command is called."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        (entries,) = (name for name in names if name.endswith(".dist-info/entry_points.txt"))
        commands = archive.read(entries).decode()
    assert {name for name in names if name.startswith("services/")} == {
        name for name in of_the_checkout() if name.startswith("services/")
    }
    assert "towpath = services.cli.entry:run" in commands


def test_the_sdist_has_every_file_of_the_repository(distributions: Distributions) -> None:
    """Whoever packages it elsewhere can build it and run its tests, and gets nothing that lay about."""
    with tarfile.open(distributions.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names - {"PKG-INFO"} == of_the_checkout()


def test_the_tests_run_from_the_sdist(distributions: Distributions, tmp_path: Path) -> None:
    """There the files are no git repository, and have another name above them."""
    source = unpacked(distributions.sdist, tmp_path)
    # The options of this run may name plugins that are not there.
    environment = {**os.environ, "PYTHONPATH": f"{source}:{source / 'proto' / 'gen'}", "PYTEST_ADDOPTS": ""}
    arguments = ["-m", "pytest", "--quiet", "-pno:cacheprovider", "-pno:xdist", "tests/unit/project"]
    done = finished([sys.executable, *arguments], cwd=source, env=environment, seconds=LONG_SECONDS)
    assert done.returncode == 0, done.stdout[-5000:]


def committed(sdist: Path, folder: Path, *, umask: int) -> Path:
    """Return a new git repository with the files of an sdist, made under a umask, and a file that is not committed."""
    source = unpacked(sdist, folder)
    (source / "PKG-INFO").unlink()
    git = ["git", "-c", "user.name=somebody", "-c", "user.email=somebody@example.org", "-c", "commit.gpgSign=false"]
    dates = {"GIT_AUTHOR_DATE": f"{COMMIT_SECONDS} +0000", "GIT_COMMITTER_DATE": f"{COMMIT_SECONDS} +0000"}
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | dates
    for arguments in (("init", "--quiet"), ("add", "."), ("commit", "--quiet", "--message=The files")):
        subprocess.run([*git, *arguments], cwd=source, env=environment, check=True, umask=umask, timeout=LONG_SECONDS)
    (source / LEFT_OVER).touch()
    return source


def test_a_commit_is_the_same_bytes_wherever_it_is_built(distributions: Distributions, tmp_path: Path) -> None:
    """In other folders, under other umasks, beside other files; and the sdist builds the wheel that is beside it."""
    built = []
    for number, umask in enumerate((0o022, 0o077)):
        source = committed(distributions.sdist, tmp_path / f"folder {number}", umask=umask)
        out = tmp_path / f"out {number}"
        command = ["sh", str(source / "release" / "dist.sh"), sys.executable, str(out)]
        done = subprocess.run(command, umask=umask, check=True, capture_output=True, text=True, timeout=LONG_SECONDS)
        assert done.stderr.splitlines()[0] == "dist: what is not committed is left out"
        built.append(Distributions.found_in(out))
    first, second = built
    assert first.wheel.read_bytes() == second.wheel.read_bytes()
    assert first.sdist.read_bytes() == second.sdist.read_bytes()
    with zipfile.ZipFile(first.wheel) as archive:
        assert str(LEFT_OVER) not in archive.namelist()

    source = unpacked(first.sdist, tmp_path / "unpacked")
    command = ["sh", str(source / "release" / "dist.sh"), sys.executable, str(tmp_path / "again")]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(COMMIT_SECONDS)}
    subprocess.run(command, env=environment, check=True, stdout=subprocess.DEVNULL, timeout=LONG_SECONDS)
    assert Distributions.found_in(tmp_path / "again").wheel.read_bytes() == first.wheel.read_bytes()


@pytest.fixture(scope="module")
def constraints(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The versions that the other tests have seen, for pip: what others publish meanwhile is no change of Towpath."""
    path = tmp_path_factory.mktemp("constraints") / "constraints.txt"
    lines = (ROOT / "requirements" / "run.txt").read_text().splitlines()
    # With a hash for one, pip would ask for a hash of each.
    path.write_text("\n".join(line.removesuffix("\\") for line in lines if not line.startswith((" ", "#"))))
    return path


@pytest.fixture(scope="module")
def clean(
    distributions: Distributions, constraints: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Outside]:
    """An environment with nothing but Towpath with its server and a Postgres, installed from the wheel."""
    folder = tmp_path_factory.mktemp("clean") / "environment"
    wheel = f"towpath[server,embedded] @ {distributions.wheel.as_uri()}"
    yield Outside.make(folder, "--constraint", str(constraints), wheel)
    shutil.rmtree(folder)


@pytest.fixture(params=["wheel", "sdist"])
def installed(request: pytest.FixtureRequest, distributions: Distributions, clean: Outside) -> Outside:
    """That environment, with Towpath itself from either file; pip builds the sdist with a hatchling of its own."""
    file: Path = getattr(distributions, request.param)
    clean.install("--no-deps", "--force-reinstall", f"towpath @ {file.as_uri()}")
    return clean


def test_the_walk_of_the_readme(installed: Outside, tmp_path: Path) -> None:
    """`towpath up --demo` serves it: alice pushes and locks, and bob's clone is whole and halts before her lock."""
    where = installed.run("-c", "import services, towpath; print(services.__path__[0], towpath.__path__[0])")
    assert all(str(installed.folder) in path for path in where.stdout.decode().split())
    with temporary_folder() as folder:
        stack = Stack(
            folder / "var",
            environment={"PYTHONPATH": ""},
            command=(str(installed.folder / "bin" / "towpath"),),
            folder=folder,
        )
        with running(stack):
            alice = Workspace(tmp_path / "alice", "alice", None, origin=stack.origin)
            walk = replaced(
                snippet("../README.md", "walk"),
                ("/tmp/film", str(tmp_path / "film")),  # noqa: S108 - the folder of the README
                ("127.0.0.1:8080", stack.listen),
            )
            done = run("sh", "-euc", walk, cwd=folder, environment=alice.environment)
            assert "Locked cover.psd" in done.stdout
            bob = Workspace(tmp_path / "bob", "bob", stack.tokens["bob"], origin=stack.origin)
            clone = bob.clone(tmp_path / "film.git", "film", "lfs.locksverify=true", lfs_url=stack.base_url)
            clone.git("checkout", "--quiet", "-b", "bob")
            clone.fsck()
            assert (clone.path / "cover.psd").stat().st_size == 5_000_000
            assert clone.lfs("lock", "cover.psd", check=False).returncode != 0
            (clone.path / "cover.psd").chmod(0o644)
            clone.commit({"cover.psd": b"bob's"})
            halted = clone.git("push", "origin", "bob", check=False)
            assert halted.returncode != 0
            assert "alice" in halted.stdout + halted.stderr
            assert stack.stop() == 0
