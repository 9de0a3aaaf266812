"""The pictures of docs/pages.md can be taken, and the page shows all of them."""

from pathlib import Path

import pytest

from tests.support.page_pictures import MAX_BYTES, PAGES, PICTURES, take_pictures

_PNG = b"\x89PNG\r\n\x1a\n"


@pytest.mark.drill
async def test_pictures_are_taken_from_a_running_stack(tmp_path: Path) -> None:
    """Each page is there and is drawn; what it looks like is for the eye."""
    await take_pictures(tmp_path)
    for name in PAGES:
        taken = (tmp_path / f"{name}.png").read_bytes()
        assert taken.startswith(_PNG), name
        # A page without content compresses to less.
        assert 10_000 < len(taken) <= MAX_BYTES, name


def test_documentation_shows_each_picture() -> None:
    """Each picture is in the repository, is small, and stands in the page."""
    page = (PICTURES.parent / "pages.md").read_text()
    for name in PAGES:
        assert (PICTURES / f"{name}.png").stat().st_size <= MAX_BYTES, name
        assert f"(pictures/{name}.png)" in page, name
