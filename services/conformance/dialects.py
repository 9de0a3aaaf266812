"""The two dialects of the one interface (docs/protocol.md, "Dialects"): the neutral naming, and that of git-lfs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialect:
    """A media type, and the header of a 401 that goes with it."""

    name: str
    media_type: str
    challenge: str


GENERIC = Dialect("neutral", "application/vnd.blob+json", "Blob-Authenticate")
GIT_LFS = Dialect("git-lfs", "application/vnd.git-lfs+json", "LFS-Authenticate")
DIALECTS = (GENERIC, GIT_LFS)
