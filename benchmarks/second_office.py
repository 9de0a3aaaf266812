"""Clones through a cache beside clones from its upstream: `python -m benchmarks.second_office`, two minutes.

The upstream, the cache and the clients share the processor, and no line is between them: the figure is what a cache
costs where it saves nothing.
"""

import statistics
import time
from pathlib import Path

from tests.support.folders import temporary_folder
from tests.support.git import Workspace, shared_repository
from tests.support.http import content
from tests.support.stack import Stack, running, running_stack

_FILES = 40
_BYTES = 4 * 1024**2
_ROUNDS = 5


def _seconds(workspace: Workspace, remote: Path, name: str, lfs_url: str) -> float:
    began = time.monotonic()
    clone = workspace.clone(remote, name, lfs_url=lfs_url)
    seconds = time.monotonic() - began
    assert all((clone.path / f"{number}.dat").stat().st_size == _BYTES for number in range(_FILES))
    return seconds


def main() -> None:
    """Clone in turn from the upstream, through the cache, and through an empty cache."""
    with running_stack() as far, temporary_folder() as folder:
        remote = folder / "remote.git"
        alice = Workspace(folder / "far", "alice", far.tokens["alice"], origin=far.origin)
        first = shared_repository(alice, remote, lfs_url=far.base_url)
        first.commit({f"{number}.dat": content(f"office {number}", _BYTES) for number in range(_FILES)})
        first.git("push", "--quiet")
        found: dict[str, list[float]] = {"upstream": [], "empty cache": [], "cache": []}
        for number in range(_ROUNDS):
            with running(Stack(folder / f"cache-{number}", ("--upstream", far.origin))) as near:
                office = Workspace(folder / f"near-{number}", "alice", far.tokens["alice"], origin=near.origin)
                through = f"{near.origin}/demo/assets"
                found["upstream"].append(_seconds(alice, remote, f"clone-{number}", far.base_url))
                found["empty cache"].append(_seconds(office, remote, "first", through))
                found["cache"].append(_seconds(office, remote, "second", through))
    medians = {name: statistics.median(seconds) for name, seconds in found.items()}
    print(f"a clone of {_FILES} files of {_BYTES // 1024**2} MiB, medians of {_ROUNDS} rounds:")
    for name, seconds in medians.items():
        print(f"  {name:12} {seconds:6.2f} s, {seconds / medians['upstream']:.2f} of the upstream's")


if __name__ == "__main__":
    main()
