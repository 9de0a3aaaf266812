"""The base address of a repository."""

import pytest

from services.facade.routes.request import repository_name_in


@pytest.mark.parametrize(
    ("base", "name"),
    [
        ("demo/assets", "demo/assets"),
        ("demo/assets/", "demo/assets"),
        ("demo/assets.git/info/lfs", "demo/assets"),
        ("demo/assets.git/info/lfs/", "demo/assets"),
        ("a/b/c/d", "a/b/c/d"),
        ("demo/assets/info/lfs", "demo/assets"),
        ("demo/assets/info/lfs/", "demo/assets"),
        ("demo/assets.git", "demo/assets"),
        ("demo/assets.git/", "demo/assets"),
        ("demo/assets.git.git", "demo/assets.git"),
        ("demo/assets.git/info/lfs/info/lfs", "demo/assets.git/info/lfs"),
        ("demo/assets/info", "demo/assets/info"),
        ("demo/assets.git//", "demo/assets.git/"),
        ("demo/assets//", "demo/assets/"),
        ("info/lfs", "info/lfs"),
        ("", ""),
    ],
)
def test_an_alias_and_one_slash_are_taken_away(base: str, name: str) -> None:
    """Nothing else is: any other text is a repository that does not exist."""
    assert repository_name_in(base) == name
