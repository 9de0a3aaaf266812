"""The site of docs/: every page is reached, every link and picture is there, and nothing comes from another host."""

import re
import subprocess
import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml

from tests.support.sources import ROOT, fail_with, text

ZENSICAL = Path(sys.executable).with_name("zensical")
ORIGIN = "http://site.test/"
# What a browser fetches without being asked to.
FETCHED = {
    ("script", "src"),
    ("link", "href"),
    ("img", "src"),
    ("iframe", "src"),
    ("source", "src"),
    ("object", "data"),
}


class Page(HTMLParser):
    """The anchors of a page, and what it refers to."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.classes: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note the element."""
        for name, value in attrs:
            if value is None:
                continue
            if name in ("id", "name"):
                self.anchors.add(value)
            if name == "class":
                self.classes.update(value.split())
            if (tag, name) == ("a", "href"):
                self.links.append(value)
            if (tag, name) in FETCHED:
                self.fetched.append(value)


@pytest.fixture(scope="module")
def staged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which the site is built."""
    folder = tmp_path_factory.mktemp("site") / "out"
    subprocess.run([sys.executable, ROOT / "deploy" / "site" / "stage.py", folder], check=True, timeout=60)
    return folder


@pytest.fixture(scope="module")
def pages(staged: Path) -> dict[str, Page]:
    """Every page of the built site, by its address."""
    done = subprocess.run([ZENSICAL, "build", "--strict"], cwd=staged, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    site = staged / "site"
    return {
        urljoin(ORIGIN, str(path.relative_to(site)).removesuffix("index.html")): Page(path.read_text())
        for path in site.rglob("*.html")
    }


def _named(entries: list[object]) -> Iterator[str]:
    for entry in entries:
        if isinstance(entry, dict):
            for value in entry.values():
                yield from _named(value) if isinstance(value, list) else [value]
        else:
            yield str(entry)


def test_every_page_is_in_the_navigation(staged: Path) -> None:
    """A page that no menu leads to is not found."""
    _, _, nav = (staged / "mkdocs.yml").read_text().partition("\nnav:\n")
    named = sorted(_named(yaml.safe_load("nav:\n" + nav)["nav"]))
    assert named == sorted(str(path.relative_to(staged / "docs")) for path in (staged / "docs").rglob("*.md"))


def test_every_link_and_picture_of_the_site_is_there(staged: Path, pages: dict[str, Page]) -> None:
    """Links to pages, to their headings, and to files lead somewhere."""
    broken = []
    for address, page in pages.items():
        for link in (*page.links, *page.fetched):
            target, _, anchor = urljoin(address, link).partition("#")
            if not target.startswith(ORIGIN) or address.endswith("404.html"):
                continue
            file = staged / "site" / unquote(urlsplit(target).path.lstrip("/"))
            exists = file.is_file() or (file / "index.html").is_file()
            if not exists or (anchor and target in pages and unquote(anchor) not in pages[target].anchors):
                broken.append(f"{address}: {link}")
    assert len(pages) > 60
    fail_with(broken)


def test_nothing_is_fetched_from_another_host(pages: dict[str, Page]) -> None:
    """A reader without the internet sees all of it, and no other host learns who reads."""
    fetched = [(address, urljoin(address, link)) for address, page in pages.items() for link in page.fetched]
    foreign = [f"{address}: {link}" for address, link in fetched if not link.startswith((ORIGIN, "data:"))]
    # The site's script would fetch what draws diagrams and enlarges pictures.
    drawing = {"mermaid", "glightbox", "arithmatex"}
    fail_with([*foreign, *(f"{address}: {each}" for address, page in pages.items() for each in page.classes & drawing)])


def test_links_that_leave_the_documentation_become_names(staged: Path) -> None:
    """The source of the site has a link to a folder of the repository, and the site has its name."""
    assert "](../proto)" in text(ROOT / "docs" / "grpc.md")
    page = (staged / "docs" / "grpc.md").read_text()
    assert "](../" not in re.sub(r"```.*?```", "", page, flags=re.DOTALL)
    assert "`proto`" in page
