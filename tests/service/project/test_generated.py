"""The generated stubs are those of the .proto files."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def _files(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def test_the_committed_stubs_are_up_to_date(tmp_path: Path) -> None:
    """Generating them again gives the same files: else run `make proto`."""
    subprocess.run([sys.executable, ROOT / "proto" / "generate.py", tmp_path], check=True, capture_output=True)
    assert _files(tmp_path) == _files(ROOT / "proto" / "gen")
