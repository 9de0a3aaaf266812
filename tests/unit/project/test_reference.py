"""The pages of docs/reference are those that the code gives."""

from release.reference import FOLDER, PAGES
from tests.support.sources import fail_with, text


def test_each_page_is_up_to_date() -> None:
    """Whoever changes a call, a body or a command runs `make reference`."""
    stale = [name for name, written in PAGES.items() if text(FOLDER / f"{name}.md") != written()]
    fail_with(f"docs/reference/{name}.md is not as the code is: run `make reference`" for name in stale)


def test_the_index_names_each_page() -> None:
    """The folder has the pages that the code gives and no other, and its index leads to each."""
    pages = {path.name for path in FOLDER.glob("*.md")} - {"README.md"}
    assert pages == {f"{name}.md" for name in PAGES}
    assert {page for page in pages if f"]({page})" not in text(FOLDER / "README.md")} == set()
