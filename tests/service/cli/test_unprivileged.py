"""The account that Towpath runs as where root has started it, and what that account gets."""

import os
import pwd
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from services.cli.errors import CommandError
from services.cli.unprivileged import copies, installation
from services.cli.unprivileged.account import Account, account_for
from services.cli.unprivileged.installation import installation_for
from services.cli.unprivileged.ownership import give, provide_folder
from services.cli.up.data_directory import DataDirectory
from tests.support.folders import temporary_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")

NOBODY = Account.of(pwd.getpwnam("nobody"))


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder of root's that everybody may enter."""
    with temporary_folder() as made:
        yield made


def owners(path: Path) -> set[int]:
    """Return the user ids that own a folder and all in it."""
    return {one.lstat().st_uid for one in (path, *path.rglob("*"))}


def test_owner_of_the_folder_goes_on_with_it(folder: Path) -> None:
    """A folder that an ordinary user has worked on stays that user's, also where root starts Towpath on it."""
    os.chown(folder, NOBODY.uid, NOBODY.gid)
    assert account_for(folder, None) == NOBODY


def test_account_of_its_own(folder: Path) -> None:
    """A folder of root's, or a new one, goes to the system account, which has neither a password nor a shell."""
    account = account_for(folder, None)
    assert account == account_for(folder / "new", None)
    assert account is not None
    assert account.uid != 0
    assert account.name == "towpath"
    assert pwd.getpwnam("towpath").pw_shell.endswith("/nologin")


def test_named_account(folder: Path) -> None:
    """An account that is named wins; root's, and one that is not there, are refused."""
    assert account_for(folder, "nobody") == NOBODY
    with pytest.raises(CommandError, match="--user root: expected an account that is not root's"):
        account_for(folder, "root")
    with pytest.raises(CommandError, match="--user nosuchuser: there is no account of this name"):
        account_for(folder, "nosuchuser")


def test_owner_without_an_account(folder: Path) -> None:
    """Postgres looks up the name of its user, so a number without a name is told at once, with what to do."""
    os.chown(folder, 54321, 54321)
    with pytest.raises(CommandError, match="its owner, user id 54321, has no account on this host; give --user"):
        account_for(folder, None)


def test_no_account_can_be_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container with one user and without the programs to add one is told what to do."""
    monkeypatch.setattr("services.cli.unprivileged.account.DEFAULT_NAME", "towpath-nowhere")
    monkeypatch.setenv("PATH", str(folder))
    with pytest.raises(CommandError, match="no account towpath-nowhere can be made on this host; give --user"):
        account_for(folder, None)


def test_what_is_given(folder: Path, tmp_path: Path) -> None:
    """All in a folder becomes the account's, links themselves and not what they lead to; to do it again is nothing."""
    top = folder / "top"
    (top / "a" / "b").mkdir(parents=True)
    (top / "a" / "b" / "file").touch()
    (tmp_path / "secret").touch()
    (top / "a" / "link").symlink_to(tmp_path / "secret")
    give(top, NOBODY)
    give(top, NOBODY)
    assert owners(top) == {NOBODY.uid}
    assert (tmp_path / "secret").stat().st_uid == 0


def test_interrupted_gift_is_gone_on_with(folder: Path) -> None:
    """The folder itself changes hands last, so the next start finds what the first has not come to."""
    top = folder / "top"
    (top / "a").mkdir(parents=True)
    (top / "a" / "new").touch()
    os.chown(top / "a", NOBODY.uid, NOBODY.gid)
    give(top, NOBODY)
    assert owners(top) == {NOBODY.uid}


def test_second_names_of_files_are_not_given(folder: Path, tmp_path: Path) -> None:
    """A hard link to a file of root's would make that file the account's."""
    (tmp_path / "shadow").touch()
    top = folder / "top"
    top.mkdir()
    (top / "innocent").hardlink_to(tmp_path / "shadow")
    with pytest.raises(CommandError, match="innocent: expected a file with one name, found 2 hard links"):
        give(top, NOBODY)
    assert (tmp_path / "shadow").stat().st_uid == 0


def test_data_folder_of_the_version_before(folder: Path) -> None:
    """Postgres' part was nobody's and the rest root's; what is not Towpath's in it stays whose it is."""
    data = folder / "var"
    for name in ("postgres", "storage", "run", "lost+found"):
        (data / name).mkdir(parents=True)
    (data / "storage" / "object").touch()
    os.chown(data / "postgres", NOBODY.uid, NOBODY.gid)
    (data / "lock").touch()
    account = account_for(data, None)
    assert account is not None
    with DataDirectory.open(data, account) as directory:
        assert directory.reached == data
    assert owners(data) == {account.uid, 0}
    assert (data / "lost+found").stat().st_uid == 0
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_folder_below_a_closed_one(folder: Path) -> None:
    """The account gets to it by what root has opened, and to nothing beside it."""
    closed = folder / "root"
    closed.mkdir(mode=0o700)
    (closed / "secret").touch()
    with DataDirectory.open(closed / "var", NOBODY) as directory:
        assert directory.reached != directory.path
        directory.give()
        script = f"echo held > {directory.reached}/file && cat {directory.path}/file"
        tried = subprocess.run(
            directory.run_as.command(["/bin/sh", "-c", script]),
            capture_output=True,
            text=True,
            check=False,
            pass_fds=directory.run_as.inherited,
        )
    assert (closed / "var" / "file").read_text() == "held\n"
    assert "Permission denied" in tried.stderr


def test_folder_of_objects_elsewhere(folder: Path) -> None:
    """A folder that `--storage` names becomes the account's; one that it cannot get to is told before anything runs."""
    provide_folder((folder / "objects here").as_uri(), NOBODY)
    assert (folder / "objects here").stat().st_uid == NOBODY.uid
    (folder / "closed").mkdir(mode=0o700)
    with pytest.raises(CommandError, match="expected a folder that the account nobody can enter and write to"):
        provide_folder((folder / "closed" / "objects").as_uri(), NOBODY)
    provide_folder("s3://bucket", NOBODY)


def test_installation_that_is_closed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed installation is copied once and compiled, runs as the account, and makes room for the next version."""
    cache, source = folder / "cache", folder / "closed" / "services"
    source.mkdir(parents=True)
    (source / "__init__.py").write_text("VERSION = 1\n")
    (folder / "closed").chmod(0o700)
    monkeypatch.setattr(copies, "_CACHE", cache)
    monkeypatch.setattr(installation, "_OURS", ("services",))
    monkeypatch.setattr(installation, "_source", lambda _: source)
    runs = []
    for version in (1, 1, 2):
        (source / "__init__.py").write_text(f"VERSION = {version}\n")
        os.utime(source / "__init__.py", (version, version))
        found = installation_for(NOBODY)
        printed = subprocess.run(
            NOBODY.command(
                found.python, "-P", "-c", "import services, pydantic, os; print(services.VERSION, os.geteuid())"
            ),
            capture_output=True,
            text=True,
            check=True,
            env=dict(found.environment),
            cwd="/",
        )
        runs.append((printed.stdout.split(), found.environment["PYTHONPATH"]))
        found.close()
    (first, one), (second, same), (third, other) = runs
    assert (first, second, third) == (["1", "65534"], ["1", "65534"], ["2", "65534"])
    assert one == same != other
    assert not Path(one).exists()
    [compiled] = Path(other).rglob("*.pyc")
    assert compiled.stat().st_mode & stat.S_IROTH
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o750}


def test_copy_in_use_is_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `towpath up` that runs from an earlier copy finds its files until it ends."""
    source = folder / "closed" / "services"
    source.mkdir(parents=True)
    (folder / "closed").chmod(0o700)
    monkeypatch.setattr(copies, "_CACHE", folder / "cache")
    monkeypatch.setattr(installation, "_source", lambda _: source)
    kept = []
    for version in (1, 2):
        (source / "__init__.py").write_text(f"VERSION = {version}\n")
        os.utime(source / "__init__.py", (version, version))
        kept.append(installation_for(NOBODY))
    assert all(Path(one.environment["PYTHONPATH"]).is_dir() for one in kept)
    for one in kept:
        one.close()


def test_installation_that_can_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is copied where nothing is closed."""
    monkeypatch.setattr(Account, "can", lambda *_: True)
    assert installation_for(NOBODY) == installation.Installation(sys.executable)
