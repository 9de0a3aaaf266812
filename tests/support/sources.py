"""The texts of the project as the scans read them, each file once."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "monitoring/**/*.md", "proto/*.md")
    for path in ROOT.glob(pattern)
)
SERVICES = sorted((ROOT / "services").rglob("*.py"))
MODULES = [
    path for folder in ("services", "tests", "benchmarks", "release") for path in sorted((ROOT / folder).rglob("*.py"))
]


@cache
def text(path: Path) -> str:
    """Return the text of a file."""
    return path.read_text(encoding="utf-8")


def name(path: Path) -> str:
    """Return the path of a file inside the project."""
    return path.relative_to(ROOT).as_posix()


def fail_with(findings: Iterable[str]) -> None:
    """Fail if there is a finding, with all findings, one on each line; pytest shortens a list that is compared."""
    if found := list(findings):
        pytest.fail("\n".join(found), pytrace=False)
