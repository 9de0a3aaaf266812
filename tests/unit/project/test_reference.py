"""The pages of docs/reference are those that the code gives."""

import pytest

from release.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_up_to_date(name: str) -> None:
    """Whoever changes a call, a body or a command runs `make reference`."""
    assert (FOLDER / f"{name}.md").read_text(encoding="utf-8") == PAGES[name](), "run `make reference`"


def test_the_index_names_each_page() -> None:
    """And no other is there."""
    pages = {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
    assert pages == {f"{name}.md" for name in PAGES}
    assert all(f"]({page})" in (FOLDER / "README.md").read_text(encoding="utf-8") for page in pages)
