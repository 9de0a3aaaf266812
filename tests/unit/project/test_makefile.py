"""The targets of the Makefile are those that the documents and the CI files name."""

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
TARGETS = Counter(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
CALLERS = [
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "RELEASING.md", ".ci/run", ".github/workflows/ci.yml")),
    *sorted((ROOT / "docs").glob("**/*.md")),
]
CALL = re.compile(r"(?:^ *|`|run: )make ([a-z-]+)", flags=re.MULTILINE)


def test_each_target_has_one_recipe() -> None:
    """Of two recipes `make` would take the second, with no more than a warning."""
    assert {name for name, recipes in TARGETS.items() if recipes > 1} == set()


@pytest.mark.parametrize("path", CALLERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_called_target_exists(path: Path) -> None:
    """A reader can type each `make` line, and CI runs what its name says."""
    assert {target for target in CALL.findall(path.read_text()) if target not in TARGETS} == set()
