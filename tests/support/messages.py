"""The messages of docs/troubleshooting.md, which stand in its headings; `…` is what differs."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "troubleshooting.md"
FROM_GIT_LFS = {
    "missing protocol: ",
    "Git credentials for ",
    "does not support the Git LFS locking API. Consider disabling it with:",
    "Locking support detected on remote ",
    "Consider enabling it with:",
    "Encountered ",
    "that should have been ",
    "Unable to find source for object ",
    "Cannot unlock file with uncommitted changes",
    "Unable to push locked files:",
    "Consider unlocking your own locked files: ",
    "no matching locks found",
    "Rate limit exceeded: ",
    "info: Uploading failed due to unsupported Content-Type header(s).",
}
"""The fixed parts of the messages that git-lfs words; the server words all others."""
# Shorter parts are words that are everywhere.
_LEAST = 8


def messages() -> list[str]:
    """Return the messages that the page explains."""
    found = re.findall(r"^### (`{1,2}) ?(.+?) ?\1$", PAGE.read_text(), flags=re.MULTILINE)
    return [text for _, text in found]


def fixed_parts(message: str) -> list[str]:
    """Return what every such message has."""
    return [part.strip() for part in re.split(r"…|; | \(", message) if len(part.strip()) >= _LEAST]


def is_from_git_lfs(message: str) -> bool:
    """Return whether git-lfs words this message."""
    return any(part.strip(' "') in {known.strip() for known in FROM_GIT_LFS} for part in message.split("…"))
