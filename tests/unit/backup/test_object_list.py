"""The list of objects."""

from pathlib import Path

import pytest

from services.backup.errors import BackupError
from services.backup.object_list import Entry, read_list

A, B = "a" * 64, "b" * 64
NAME = f"{B}.0123456789abcdef"


def test_lines(tmp_path: Path) -> None:
    """A list is read as it was written; where a line has no name, the bytes lay under the oid."""
    path = tmp_path / "objects"
    path.write_text(f"{A}\t0\n{B}\t12\t{NAME}\n")
    assert list(read_list(path)) == [Entry(A, 0, A), Entry(B, 12, NAME)]


@pytest.mark.parametrize(
    "text",
    [
        f"{B}\t1\n{A}\t1\n",
        f"{A}\t1\n{A}\t2\n",
        f"{A}\t-1\n",
        f"{A}\n",
        "../x\t1\n",
        f"{A}\t1\t../x\n",
        f"{A}\t1\t{A}\tx\n",
        f"{A}\t1\t{NAME}\n",
    ],
)
def test_what_is_no_list(tmp_path: Path, text: str) -> None:
    """Anything else, and an order that is not that of the oids, is refused."""
    path = tmp_path / "objects"
    path.write_text(text)
    with pytest.raises(BackupError, match="objects: line"):
        list(read_list(path))
