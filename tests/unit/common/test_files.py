"""Open files as resources with one owner."""

import os
from pathlib import Path

import pytest

from services.common.files import OwnedDescriptor


def test_a_file_is_closed_once(tmp_path: Path) -> None:
    """A descriptor that is closed twice may by then be somebody else's."""
    path = tmp_path / "file"
    path.write_bytes(b"data")
    file = OwnedDescriptor()
    file.open(path, os.O_RDONLY)
    number = file.number
    assert (file.is_open, file.regular_size()) == (True, 4)
    file.close()
    with path.open("rb") as other:
        assert other.fileno() == number
        file.close()
        assert other.read() == b"data"
    with pytest.raises(ValueError, match="not open"):
        _ = file.number


def test_a_descriptor_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    """A folder that is opened anew leaves nothing open."""
    file = OwnedDescriptor()
    file.open(tmp_path, os.O_PATH | os.O_DIRECTORY)
    before = file.number
    file.adopt(os.open(tmp_path, os.O_PATH | os.O_DIRECTORY))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(before)
    file.close()


def test_what_is_no_regular_file_has_no_size(tmp_path: Path) -> None:
    """A FIFO or a folder in the place of an object is no object."""
    path = tmp_path / "fifo"
    os.mkfifo(path)
    file = OwnedDescriptor()
    file.open(path, os.O_RDONLY | os.O_NONBLOCK)
    assert file.regular_size() is None
    file.close()


def test_other_programs_inherit_nothing(tmp_path: Path) -> None:
    """A file that a child of this process holds open stays on the disk after its removal."""
    file = OwnedDescriptor()
    file.open(tmp_path / "new", os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    assert not os.get_inheritable(file.number)
    assert (tmp_path / "new").stat().st_mode & 0o777 == 0o600
    file.close()
