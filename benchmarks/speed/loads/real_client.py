"""The real git-lfs."""

import shutil
import time
from urllib.parse import quote, urlsplit, urlunsplit

from benchmarks.speed.blobs import read_into_cache
from benchmarks.speed.client import Site
from benchmarks.speed.material import GitRepository
from benchmarks.speed.turn import Turn

_SECONDS = 900.0


def small(turn: Turn) -> None:
    """Push and clone many small files."""
    _push_and_clone(turn, turn.material.git_of_small, "64k")


def large(turn: Turn) -> None:
    """Push and clone four huge files."""
    _push_and_clone(turn, turn.material.git_of_large, "1g")


def _push_and_clone(turn: Turn, repository: GitRepository, suffix: str) -> None:
    url, workspace = _with_login(turn.site), repository.workspace
    read_into_cache([repository.clone / ".git" / "lfs" / "objects"])
    began = time.perf_counter()
    push = ("-c", f"lfs.url={url}", "lfs", "push", "--all", "origin")
    workspace.git(*push, cwd=repository.clone, seconds=_SECONDS)
    turn.figures[f"push_{suffix}"] = time.perf_counter() - began
    copy = workspace.home / "copy"
    read_into_cache([turn.data])
    try:
        began = time.perf_counter()
        workspace.git("clone", "--quiet", f"--config=lfs.url={url}", repository.bare, copy, seconds=_SECONDS)
        turn.figures[f"clone_{suffix}"] = time.perf_counter() - began
        for file in repository.clone.glob("*.dat"):
            assert (copy / file.name).stat().st_size == file.stat().st_size, "a clone has pointers instead of files"
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _with_login(site: Site) -> str:
    """Return the address with the credentials in it, as nobody is there to be asked for them."""
    if site.login is None:
        return site.base_url
    parts = urlsplit(site.base_url)
    user, password = (quote(text, safe="") for text in site.login)
    return urlunsplit(parts._replace(netloc=f"{user}:{password}@{parts.netloc}"))
