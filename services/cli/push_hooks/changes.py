"""The paths that a push changes.

A path counts in three cases:

1. A commit changes it that is new to the repository. A merge changes what differs from all of its parents, so that the
   merge of another branch does not change what commits on that branch have changed.
2. The update of a branch undoes a change of it: the tip differs from the old tip, although no commit between them
   changes the path. Commits were dropped, or a merge has discarded what one of its parents has.
3. The branch is the default branch, and its tip differs from the old tip. What others have pushed to their branches
   counts there, because their merge changes the files that everybody works on.

Both paths of a rename count, and the path of a deletion. The deletion of a ref changes nothing.
"""

import hashlib
from collections.abc import AsyncGenerator
from contextlib import aclosing

from services.cli.push_hooks.git import Git, RefUpdate

MAX_PATHS = 10_000
"""The most paths of a call; see `PushService`."""

_MAX_BATCH_BYTES = 4 * 1024**2
_MAX_KNOWN = 200_000
_BRANCHES = "refs/heads/"


async def pushed_paths(git: Git, update: RefUpdate) -> AsyncGenerator[bytes, None]:
    """Yield the paths that an update changes, before the refs of the repository have moved; some repeatedly."""
    commit = await _commit(git, update)
    if not commit:
        return
    async with aclosing(git.changed_by(commit, "--not", "--all")) as changed:
        async for path in changed:
            yield path
    if update.is_creation or not update.ref.startswith(_BRANCHES):
        return
    if await git.answer("symbolic-ref", "--quiet", "HEAD") == update.ref:
        moved = git.differing(update.old, commit)
    elif await _is_linear(git, update.old, commit):
        return
    else:
        moved = _undone(git, update.old, commit)
    async with aclosing(moved) as paths:
        async for path in paths:
            yield path


async def landed_paths(git: Git, update: RefUpdate) -> AsyncGenerator[bytes, None]:
    """Yield the paths that an update has changed on its ref, after the refs of the repository have moved."""
    commit = await _commit(git, update)
    if not commit:
        return
    if update.is_creation:
        # Not --all, which has HEAD too, and HEAD may be this ref.
        landed = git.changed_by(commit, "--not", f"--exclude={update.ref}", "--glob=refs/*")
    else:
        landed = git.differing(update.old, commit)
    async with aclosing(landed) as paths:
        async for path in paths:
            yield path


async def in_batches(
    paths: AsyncGenerator[bytes, None], *, max_paths: int = MAX_PATHS
) -> AsyncGenerator[list[str], None]:
    """Yield the paths that can be locked in lists for one call each, without most of the repetitions.

    A path that is not UTF-8 cannot be locked. The memory is bounded, whatever the number of paths.
    """
    batch: list[str] = []
    size = 0
    async with aclosing(_distinct(paths)) as distinct:
        async for path in distinct:
            try:
                batch.append(path.decode())
            except UnicodeDecodeError:
                continue
            size += len(path)
            if len(batch) >= max_paths or size >= _MAX_BATCH_BYTES:
                yield batch
                batch, size = [], 0
    if batch:
        yield batch


async def _distinct(paths: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield the paths that are not among the last many of them, and close `paths` in the end."""
    known: set[bytes] = set()
    async with aclosing(paths):
        async for path in paths:
            # Shorter than a path, and nobody can make two paths of one digest.
            digest = hashlib.blake2b(path, digest_size=16).digest()
            if digest in known:
                continue
            if len(known) >= _MAX_KNOWN:
                known.clear()
            known.add(digest)
            yield path


async def _commit(git: Git, update: RefUpdate) -> str:
    """Return the commit that a ref is to point to, by way of tags if need be; empty if there is none."""
    if update.is_deletion:
        return ""
    if await git.answer("cat-file", "-t", update.new) == "commit":
        return update.new
    # A tag of a file or of a folder is on no branch.
    return await git.answer("rev-parse", "--verify", "--quiet", f"{update.new}^{{commit}}")


async def _is_linear(git: Git, old: str, new: str) -> bool:
    """Return whether commits without a merge lead from one to the other, so that none can undo unseen."""
    dropped = await git.answer("rev-list", "--max-count=1", old, "--not", new)
    return not dropped and not await git.answer("rev-list", "--min-parents=2", "--max-count=1", new, "--not", old)


async def _undone(git: Git, old: str, new: str) -> AsyncGenerator[bytes, None]:
    """Yield the paths in which two tips differ, although no commit that leads to the new one changes them."""
    async with aclosing(git.differing(old, new)) as differing:
        async for chunk in _chunks(differing):
            async with aclosing(git.changed_by(new, "--not", old)) as changed:
                async for path in changed:
                    chunk.discard(path)
                    if not chunk:
                        break
            for path in chunk:
                yield path


async def _chunks(paths: AsyncGenerator[bytes, None]) -> AsyncGenerator[set[bytes], None]:
    chunk: set[bytes] = set()
    size = 0
    async for path in paths:
        chunk.add(path)
        size += len(path)
        if len(chunk) >= _MAX_KNOWN or size >= _MAX_BATCH_BYTES:
            yield chunk
            chunk, size = set(), 0
    if chunk:
        yield chunk
