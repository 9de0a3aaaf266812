"""The messages of the server that docs/troubleshooting.md explains are those that it sends."""

import ast

from services.common.sizes import quota_message
from tests.support.messages import fixed_parts, is_from_git_lfs, messages
from tests.support.sources import SERVICES, fail_with, text


def _texts() -> str:
    """Return the texts of the services; what an f-string puts in stands as `…`."""
    texts = [quota_message(412 * 10**9, 500 * 10**9)]
    for path in SERVICES:
        for node in ast.walk(ast.parse(text(path))):
            if isinstance(node, ast.JoinedStr):
                texts.append(
                    "".join(str(each.value) if isinstance(each, ast.Constant) else "…" for each in node.values)
                )
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                texts.append(node.value)
    # No part has such a character, so none is found across two texts.
    return "\0".join(texts)


def test_the_server_sends_each_message() -> None:
    """A person who searches for what the terminal says finds the page."""
    texts = _texts()
    of_server = {message: fixed_parts(message) for message in messages() if not is_from_git_lfs(message)}
    fail_with(
        f"{message}: no text has {part}" for message in of_server for part in of_server[message] if part not in texts
    )
    assert all(of_server.values())


def test_the_page_explains_many() -> None:
    """A page without messages would pass the other test of this module, so its messages are counted."""
    assert len(messages()) >= 35
