"""The table of docs/monitoring.md has every metric, and no other."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[3]
# Names that are none of a metric: the channels of Postgres on which services tell each other of changes.
CHANNELS = {"towpath_access_changed", "towpath_object_removed"}


def test_the_page_lists_every_metric() -> None:
    """A metric is named where it is defined, in one literal."""
    sources = [path.read_text() for path in (ROOT / "services").rglob("*.py")]
    defined = {name for text in sources for name in re.findall(r'"(towpath_\w+)"', text)} - CHANNELS
    page = (ROOT / "docs" / "monitoring.md").read_text()
    rows = re.findall(r"^\| (`towpath_[^|]+)\|", page, re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(towpath_\w+)", row)]
    assert sorted(listed) == sorted(defined)
