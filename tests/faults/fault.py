"""A fault: a realistic mistake in a file of services/, and the tests that are likely to catch it."""

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Fault:
    """A replacement of a text that occurs exactly once in a file."""

    id: str
    path: str
    """The path of the file below services/."""
    old: str
    new: str
    rule: str
    """The rule that the fault breaks, in one sentence."""
    likely: list[str]
    """The tests that are likely to catch it, below tests/, the cheapest first."""

    def problem(self, tree: Path) -> str | None:
        """Return why the fault cannot be planted in a tree; None if it can."""
        file = tree / "services" / self.path
        if not file.is_file():
            return f"there is no services/{self.path}"
        if (count := file.read_text().count(self.old)) != 1:
            return f"its text occurs {count} times in services/{self.path}, expected once"
        missing = [path for path in self.likely if not (tree / "tests" / path.partition("::")[0]).exists()]
        return f"there is no tests/{missing[0]}" if missing else None


def read_catalog() -> Sequence[Fault]:
    """Return the faults of catalog.toml."""
    return [Fault(**entry) for entry in tomllib.loads(Path(__file__).with_name("catalog.toml").read_text())["fault"]]
