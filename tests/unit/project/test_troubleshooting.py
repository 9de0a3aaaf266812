"""The messages of the server that docs/troubleshooting.md explains are those that it sends."""

import ast
from functools import cache
from pathlib import Path

import pytest

from services.common.sizes import quota_message
from tests.support.messages import fixed_parts, is_from_git_lfs, messages

SERVICES = Path(__file__).parents[3] / "services"


@cache
def _texts() -> tuple[str, ...]:
    """Return the texts of the services; what an f-string puts in stands as `…`."""
    texts = [quota_message(412 * 10**9, 500 * 10**9)]
    for path in SERVICES.rglob("*.py"):
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    return tuple(texts)


@pytest.mark.parametrize("message", [each for each in messages() if not is_from_git_lfs(each)])
def test_the_server_sends_each_message(message: str) -> None:
    """A person who searches for what the terminal says finds the page."""
    parts = fixed_parts(message)
    assert parts
    for part in parts:
        assert any(part in text for text in _texts()), part


def test_the_page_explains_many() -> None:
    """The page is read as a list of headings, and so is it here."""
    assert len(messages()) >= 35
