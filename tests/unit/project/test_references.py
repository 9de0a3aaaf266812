"""References in documents, docstrings and comments lead to something."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted(
    path
    for pattern in ("*.md", "docs/**/*.md", "examples/**/*.md", "monitoring/**/*.md", "proto/*.md")
    for path in ROOT.glob(pattern)
)
SOURCES = sorted(
    path
    for pattern in (
        "services/**/*.py",
        "tests/**/*.py",
        "benchmarks/**/*.py",
        "release/**/*.py",
        "proto/towpath/**/*.proto",
    )
    for path in ROOT.glob(pattern)
    if path != Path(__file__)
)
URL = re.compile(r"https?://\S+")
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]*)\)")
PATH = re.compile(r"\b((?:services|tests|docs|deploy|benchmarks|proto|monitoring|examples)/[\w./-]*\w)(#[\w-]+)?")
FACT = re.compile(r"(?<![\w/.-])(?:client|trap)-\d+\b")
NOWHERE = re.compile(r"\b(?:client (?:row|rows|case|cases) \d|client \d\.\d|traps? \d|(?:issue|design): )")


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, and those that it sets."""
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    slugs = (
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).strip().replace(" ", "-") for heading in headings
    )
    return {*slugs, *re.findall(r'<a id="([\w-]+)">', text)}


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    for link in LINK.findall(re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)):
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            yield link


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    """A reader who follows a link finds the file and the heading."""
    assert list(broken_links(page)) == []


@pytest.mark.parametrize("path", [*PAGES, *SOURCES], ids=lambda path: str(path.relative_to(ROOT)))
def test_every_path_in_a_text_exists(path: Path) -> None:
    """Files move, and what names them has to follow."""
    broken = []
    for name, anchor in PATH.findall(URL.sub("", path.read_text())):
        target = ROOT / name
        if path.suffix == ".md" and path.name == "CHANGELOG.md":
            continue
        exists = target.exists() or any(target.parent.glob(f"{target.name}*"))
        if not exists or (anchor and target.suffix == ".md" and anchor[1:] not in anchors(target)):
            broken.append(name + anchor)
    assert broken == []


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_facts_and_traps_are_cited_by_their_anchors(path: Path) -> None:
    """`client-6` and `trap-33` are anchors of docs/client-facts.md, which a search finds."""
    text = path.read_text()
    assert NOWHERE.findall(text) == []
    known = anchors(ROOT / "docs" / "client-facts.md")
    assert [fact for fact in FACT.findall(text) if fact not in known] == []
