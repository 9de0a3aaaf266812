"""Files stay small enough to be read at a glance."""

from pathlib import Path

import pytest

SERVICES = Path(__file__).parents[3] / "services"


@pytest.mark.parametrize("path", sorted(SERVICES.rglob("*.py")), ids=lambda path: str(path.relative_to(SERVICES)))
def test_no_file_is_over_300_lines(path: Path) -> None:
    """A file of services has at most 300 lines."""
    assert len(path.read_text().splitlines()) <= 300
