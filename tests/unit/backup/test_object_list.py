"""The list of objects."""

from pathlib import Path

import pytest

from services.backup.errors import BackupError
from services.backup.object_list import read_list

A, B = "a" * 64, "b" * 64


def test_lines(tmp_path: Path) -> None:
    """A list is read as it was written."""
    path = tmp_path / "objects"
    path.write_text(f"{A}\t0\n{B}\t12\n")
    assert list(read_list(path)) == [(A, 0), (B, 12)]


@pytest.mark.parametrize("text", [f"{B}\t1\n{A}\t1\n", f"{A}\t1\n{A}\t2\n", f"{A}\t-1\n", f"{A}\n", "../x\t1\n"])
def test_what_is_no_list(tmp_path: Path, text: str) -> None:
    """Anything else, and an order that is not that of the oids, is refused."""
    path = tmp_path / "objects"
    path.write_text(text)
    with pytest.raises(BackupError, match="objects: line"):
        list(read_list(path))
