"""Rules of the prose in docstrings (CONTRIBUTING.md)."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
# Released migrations never change.
SOURCES = sorted(
    path
    for folder in ("services", "tests", "benchmarks", "release")
    for path in (ROOT / folder).rglob("*.py")
    if path.parent.name != "versions"
)
# A docstring that begins so names a question instead of a thing.
QUESTION = re.compile(r"(What|How|Who|Whose|Whom|Whether|Where|Which|When|Why|By what|By whom)\b")


def docstrings(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of each docstring of a module."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and (
            text := ast.get_docstring(node)
        ):
            yield getattr(node, "lineno", 1), text


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_docstring_begins_with_a_question(path: Path) -> None:
    """A reader looks for a noun and finds the thing by it."""
    assert [(line, text[:40]) for line, text in docstrings(path) if QUESTION.match(text)] == []
