"""References in documents, docstrings and comments lead to something."""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.support.sources import MODULES, PAGES, ROOT, fail_with, name, text

SOURCES = [*(path for path in MODULES if path != Path(__file__)), *sorted(ROOT.glob("proto/towpath/**/*.proto"))]
FACTS = ROOT / "docs" / "client-facts.md"
URL = re.compile(r"https?://\S+")
BLOCK = re.compile(r"```.*?```", re.DOTALL)
LINK = re.compile(r"\]\((?!https?:|mailto:)([^)\s]*)\)")
PATH = re.compile(r"\b((?:services|tests|docs|deploy|benchmarks|proto|monitoring|examples)/[\w./-]*\w)(#[\w-]+)?")
FACT = re.compile(r"(?<![\w/.-])(?:client|trap)-\d+\b")
NOWHERE = re.compile(r"\b(?:client (?:row|rows|case|cases) \d|client \d\.\d|traps? \d|(?:issue|design): )")


@cache
def anchors(page: Path) -> set[str]:
    """Return the anchors of a page: those of its headings, and those that it sets."""
    prose = BLOCK.sub("", text(page))
    headings = re.findall(r"^#+ (.*)$", prose, flags=re.MULTILINE)
    slugs = (
        re.sub(r"[^\w\- ]", "", re.sub(r"[`*]", "", heading).lower()).strip().replace(" ", "-") for heading in headings
    )
    return {*slugs, *re.findall(r'<a id="([\w-]+)">', prose)}


def lacks_anchor(target: Path, anchor: str) -> bool:
    """Return whether a reference names an anchor that its page does not have."""
    return anchor != "" and target.suffix == ".md" and anchor not in anchors(target)


def broken_links(page: Path) -> Iterator[str]:
    """Yield the links of a page that lead nowhere."""
    for link in LINK.findall(BLOCK.sub("", text(page))):
        file, _, anchor = link.partition("#")
        target = (page.parent / file).resolve() if file else page
        if not target.exists() or lacks_anchor(target, anchor):
            yield link


@cache
def exists(path: str) -> bool:
    """Return whether a path leads to a file or a folder, or is the beginning of the name of one."""
    target = ROOT / path
    return target.exists() or any(target.parent.glob(f"{target.name}*"))


def broken_paths(path: Path) -> Iterator[str]:
    """Yield the paths in a text that lead nowhere."""
    for file, anchor in PATH.findall(URL.sub("", text(path))):
        if not exists(file) or lacks_anchor(ROOT / file, anchor[1:]):
            yield file + anchor


def broken_facts(path: Path) -> Iterator[str]:
    """Yield the words of a text that cite a fact or a trap, but not by an anchor that exists."""
    yield from NOWHERE.findall(text(path))
    yield from (fact for fact in FACT.findall(text(path)) if fact not in anchors(FACTS))


def test_every_link_of_a_page_leads_somewhere() -> None:
    """A reader who follows a link finds the file and the heading."""
    fail_with(f"{name(page)}: {link}" for page in PAGES for link in broken_links(page))


def test_every_path_in_a_text_exists() -> None:
    """A text names a file by the path that the file has now; only the changelog names files that are gone."""
    paths = [path for path in (*PAGES, *SOURCES) if path.name != "CHANGELOG.md"]
    fail_with(f"{name(path)}: {broken}" for path in paths for broken in broken_paths(path))


def test_facts_and_traps_are_cited_by_their_anchors() -> None:
    """`client-6` and `trap-33` are anchors of docs/client-facts.md, which a search finds."""
    fail_with(f"{name(path)}: {broken}" for path in SOURCES for broken in broken_facts(path))
