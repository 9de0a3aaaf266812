"""The table of docs/monitoring.md has every metric, and no other."""

import re
from collections import Counter

from tests.support.sources import ROOT, SERVICES, fail_with, text

# Names that are none of a metric: the channels of Postgres on which services tell each other of changes.
CHANNELS = {"towpath_access_changed", "towpath_object_removed"}


def test_the_page_lists_every_metric() -> None:
    """A metric is named where it is defined, in one literal."""
    defined = {name for path in SERVICES for name in re.findall(r'"(towpath_\w+)"', text(path))} - CHANNELS
    rows = re.findall(r"^\| (`towpath_[^|]+)\|", text(ROOT / "docs" / "monitoring.md"), re.MULTILINE)
    listed = [name for row in rows for name in re.findall(r"`(towpath_\w+)", row)]
    rows_too_many = Counter(listed)
    rows_too_many.subtract(defined)
    fail_with(f"{name}: {count:+} rows" for name, count in rows_too_many.items() if count)
