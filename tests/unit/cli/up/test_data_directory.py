"""The data folder, and the folder of its sockets."""

import os
import tempfile
from pathlib import Path

import pytest

from services.cli.errors import CommandError
from services.cli.up.data_directory import DataDirectory, storage_url_of
from services.cli.up.runtime_directory import make_runtime_directory, runtime_directory
from services.common.files import write_secret


@pytest.fixture
def short() -> Path:
    """A folder whose path is short enough for sockets."""
    return Path(tempfile.mkdtemp(prefix="towpath-test-", dir="/tmp")).resolve()


def mode(path: Path) -> int:
    """Return who may do what with a file."""
    return path.stat().st_mode & 0o777


def test_made_for_its_owner_alone(short: Path) -> None:
    """The folder and all in it are entered and read by nobody else, whatever the umask."""
    before = os.umask(0)
    try:
        with DataDirectory.open(short / "a" / "var") as directory:
            directory.ensure_signing_key()
            assert mode(directory.path) == mode(directory.make_run()) == mode(directory.storage) == 0o700
            assert mode(directory.signing_key) == 0o600
    finally:
        os.umask(before)


def test_only_one_at_a_time(short: Path) -> None:
    """A second one is told who has it; when the first lets it go, the next one gets it."""
    with DataDirectory.open(short), pytest.raises(CommandError, match=rf"another .*process {os.getpid()}\)"):
        DataDirectory.open(short)
    DataDirectory.open(short).close()


def test_not_a_folder(short: Path) -> None:
    """A file in its place is told."""
    (short / "file").touch()
    with pytest.raises(CommandError, match="file"):
        DataDirectory.open(short / "file")


def test_signing_key_stays(short: Path) -> None:
    """The signing key is made once, and long enough."""
    with DataDirectory.open(short) as directory:
        first = directory.ensure_signing_key()
    with DataDirectory.open(short) as directory:
        assert directory.ensure_signing_key() == first
    assert len(first) >= 32


def test_secret_is_replaced_whole(short: Path) -> None:
    """A secret is written over an older one and over what a crash left of the writing."""
    (short / "secret.new").write_text("half")
    write_secret(short / "secret", "one")
    write_secret(short / "secret", "two")
    assert (short / "secret").read_text() == "two"
    assert mode(short / "secret") == 0o600
    assert [path.name for path in short.iterdir()] == ["secret"]


def test_sockets_lie_within(short: Path) -> None:
    """A short and plain path can name sockets, so the sockets are in the folder itself."""
    assert make_runtime_directory(short, short) == runtime_directory(short) == short / "run"


@pytest.mark.parametrize("name", ["x" * 80, "with space", "100%", "a,b", "ü", "a#b"])
def test_sockets_lie_elsewhere(short: Path, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A long or unusual path cannot name sockets, so they lie elsewhere, at a place that no TMPDIR changes."""
    data, other = short / name, short / f"{name}2"
    data.mkdir()
    other.mkdir()
    folder = make_runtime_directory(data, data)
    assert folder.parent == Path(tempfile.gettempdir()).resolve()
    assert mode(folder) == 0o700
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert folder == runtime_directory(data) == make_runtime_directory(data, data)
    monkeypatch.undo()
    assert folder != make_runtime_directory(other, other)
    folder.rmdir()
    # As after a restart of the host, which empties the temporary folder.
    again = make_runtime_directory(data, data)
    assert again == runtime_directory(data)
    for made in (again, runtime_directory(other)):
        made.rmdir()


def test_squatted_folder_is_refused(short: Path) -> None:
    """Another user could put sockets into a folder that is not ours, so no socket is looked for there."""
    data = short / ("x" * 80)
    data.mkdir()
    folder = make_runtime_directory(data, data)
    folder.rmdir()
    folder.symlink_to(short)
    try:
        with pytest.raises(CommandError, match="expected a folder of our own"):
            make_runtime_directory(data, data)
    finally:
        folder.unlink()
    (short / "run").mkdir(mode=0o755)
    with pytest.raises(CommandError, match="expected a folder of our own"):
        make_runtime_directory(short, short)


def test_closed_to_others_at_every_start(short: Path) -> None:
    """A folder that was there, or was opened since, is entered by nobody else once Towpath works on it."""
    for _ in range(2):
        short.chmod(0o755)
        with DataDirectory.open(short):
            assert mode(short) == 0o700


def test_folder_of_something_else_is_left_alone(short: Path) -> None:
    """A folder with other files is refused before its mode changes; secrets that were put there before are ours."""
    short.chmod(0o755)
    (short / "signing-key").write_text("x" * 40)
    (short / "holiday.jpg").touch()
    with pytest.raises(CommandError, match=r"expected an empty folder or one of a .*, found holiday"):
        DataDirectory.open(short)
    assert mode(short) == 0o755
    assert not (short / "lock").exists()
    (short / "holiday.jpg").unlink()
    with DataDirectory.open(short) as directory:
        assert directory.ensure_signing_key() == "x" * 40


def test_lock_that_leads_elsewhere_is_not_followed(short: Path) -> None:
    """The folder may be another user's, whose link would have root write to any file of the host."""
    (short / "target").write_text("precious")
    (short / "var").mkdir()
    (short / "var" / "lock").symlink_to(short / "target")
    with pytest.raises(CommandError, match="var"):
        DataDirectory.open(short / "var")
    (short / "var" / "lock").unlink()
    (short / "var" / "lock").hardlink_to(short / "target")
    with pytest.raises(CommandError, match="lock: expected a regular file"):
        DataDirectory.open(short / "var")
    assert (short / "target").read_text() == "precious"


def test_where_the_bytes_are_is_remembered(short: Path) -> None:
    """A stack must not look for its objects elsewhere, so the first URL is recorded and no other is accepted."""
    bucket = "s3://bucket/prefix?endpoint=http://127.0.0.1:1"
    with DataDirectory.open(short / "new") as directory:
        assert directory.storage_url(bucket) == bucket
        assert directory.storage_url(None) == directory.storage_url(bucket) == bucket
        with pytest.raises(CommandError, match="its objects are in s3://bucket/prefix"):
            directory.storage_url("s3://other")
    assert storage_url_of(short / "new") == bucket


def test_bytes_in_the_folder_are_not_left_behind(short: Path) -> None:
    """A folder that has objects is not started with another place for them."""
    with DataDirectory.open(short / "old") as directory:
        assert directory.storage_url(None) == directory.storage.as_uri()
        (directory.storage / "objects" / "ab").mkdir(parents=True)
        with pytest.raises(CommandError, match="its objects are in file://"):
            directory.storage_url("s3://bucket")
        assert directory.storage_url(None) == storage_url_of(directory.path) == directory.storage.as_uri()


def test_memory_is_there_while_the_folder_is_taken(short: Path) -> None:
    """For its owner alone, empty at the begin, gone at the end; and what one that was killed has left goes too."""
    with DataDirectory.open(short) as directory:
        memory = directory.make_memory()
        assert memory is not None
        assert mode(memory) == 0o700
    assert not memory.exists()
    memory.mkdir(mode=0o700)
    (memory / "left").touch()
    (short / "memory").symlink_to(memory)
    with DataDirectory.open(short) as directory:
        assert directory.make_memory() != memory
        assert not memory.exists()


def test_memory_has_another_name_each_time(short: Path) -> None:
    """A name that can be guessed could be taken by somebody else first, to read what is shared or to keep it away."""
    names = set()
    for _ in range(3):
        with DataDirectory.open(short) as directory:
            names.add(directory.make_memory())
    assert len(names) == 3


def test_link_to_memory_removes_nothing_else(short: Path, tmp_path: Path) -> None:
    """The folder behind the link must be removed only if it is ours and in memory."""
    (tmp_path / "kept").touch()
    (short / "memory").symlink_to(tmp_path)
    with DataDirectory.open(short) as directory:
        directory.make_memory()
    assert (tmp_path / "kept").exists()
