"""Patterns of repositories at a forge."""

import pytest

from services.locks.forges.patterns import matches


@pytest.mark.parametrize(
    ("pattern", "name", "expected"),
    [
        ("acme/*", "acme/film", True),
        ("acme/*", "ACME/Film", True),
        ("acme/*", "acme/film/assets", False),
        ("acme/*", "acme", False),
        ("acme/*", "evil/acme/film", False),
        ("acme/*", "acmes/film", False),
        ("acme/film-*", "acme/film-1", True),
        ("acme/film-*", "acme/other", False),
        ("acme/a*a", "acme/a", False),
        ("*/film", "acme/film", True),
        ("acme/**", "acme/film/assets", True),
        ("acme/**", "acme/film", True),
        ("acme/**", "acme", False),
        ("acme/.*", "acme/xfilm", False),
    ],
)
def test_patterns(pattern: str, name: str, *, expected: bool) -> None:
    """A star stays in its segment; two stars at the end are all that is below; case does not count."""
    assert matches(pattern, name) is expected
