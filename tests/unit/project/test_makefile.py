"""The targets of the Makefile are those that the documents and the CI files name."""

import re
from collections import Counter

from tests.support.sources import ROOT, fail_with, name, text

TARGETS = Counter(re.findall(r"^([a-z-]+):", text(ROOT / "Makefile"), flags=re.MULTILINE))
CALLERS = [
    *(ROOT / file for file in ("README.md", "CONTRIBUTING.md", "RELEASING.md", ".ci/run", ".github/workflows/ci.yml")),
    *sorted((ROOT / "docs").glob("**/*.md")),
]
CALL = re.compile(r"(?:^ *|`|run: )make ([a-z-]+)", flags=re.MULTILINE)


def test_each_target_has_one_recipe() -> None:
    """Of two recipes `make` would take the second, with no more than a warning."""
    assert {target for target, recipes in TARGETS.items() if recipes > 1} == set()


def test_every_called_target_exists() -> None:
    """A reader can type each `make` line, and CI runs what its name says."""
    called = [(path, target) for path in CALLERS for target in CALL.findall(text(path))]
    fail_with(f"{name(path)}: make {target}" for path, target in called if target not in TARGETS)
