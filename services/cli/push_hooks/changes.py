"""The paths that a push changes.

A path counts in these cases:

1. A commit changes it that is new to the repository. A merge changes what differs from all of its parents, so that the
   merge of another branch does not change what commits on that branch have changed.
2. The update of a branch undoes a change of it: the tip differs from the old tip, although no commit between them
   changes the path. Commits were dropped, or a merge has discarded what one of its parents has.
3. The branch is the default branch, and its tip differs from the old tip. What others have pushed to their branches
   counts there, because their merge changes the files that everybody works on.
4. The branch is not in the default lock space, and its tip differs from the old tip, or that of a new branch from where
   it has left the default branch. In the default space, a commit counts that is new to the branches of that space. So
   a change that a branch of another space, or a tag, has brought to the repository is new where it is pushed then.
5. The deletion of a branch drops the last commit that changes it, and the default branch does not have the same file.
   Otherwise, a branch could be deleted and pushed again to evade rule 2.

Both paths of a rename count, and the path of a deletion.
"""

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass

from services.cli.push_hooks.git import Git, RefUpdate

MAX_PATHS = 10_000
"""The most paths of a call; see `PushService`."""

_MAX_BATCH_BYTES = 512 * 1024
_MAX_KNOWN, _MAX_KNOWN_BYTES = 200_000, 4 * 1024**2
_BRANCHES = "refs/heads/"


@dataclass(frozen=True)
class Space:
    """The lock space of a ref: whether it is the default space, and the tips of its branches."""

    is_default: bool
    tips: Sequence[str]


async def pushed_paths(
    git: Git, update: RefUpdate, *, updates: Sequence[RefUpdate] = (), space: Space | None = None
) -> AsyncGenerator[bytes, None]:
    """Yield the paths that an update changes, before the refs of the repository have moved; some repeatedly.

    `updates` are all of the push, and `space` is None where the repository has one lock space alone.
    """
    async for source in _sources(git, update, updates, space):
        async with aclosing(source) as paths:
            async for path in paths:
                yield path


async def _sources(
    git: Git, update: RefUpdate, updates: Sequence[RefUpdate], space: Space | None
) -> AsyncIterator[AsyncGenerator[bytes, None]]:
    """Yield what yields the paths of each case."""
    is_branch = update.ref.startswith(_BRANCHES)
    if update.is_deletion:
        if is_branch:
            yield _dropped(git, update, updates)
        return
    commit = await _commit(git, update)
    if not commit:
        return
    yield git.changed_by(commit, "--not", "--all")
    if not is_branch:
        return
    if space is not None and not space.is_default:
        yield await _since_it_left(git, update, commit)
    elif not update.is_creation and await git.answer("symbolic-ref", "--quiet", "HEAD") == update.ref:
        yield git.differing(update.old, commit)
    else:
        if space is not None:
            yield git.changed_by(commit, excluded=space.tips)
        if not update.is_creation and not await _is_linear(git, update.old, commit):
            yield _undone(git, update.old, commit)


async def _since_it_left(git: Git, update: RefUpdate, commit: str) -> AsyncGenerator[bytes, None]:
    """Return what yields the paths that differ from the old tip, or from where a new branch left the default one."""
    base = update.old
    if update.is_creation:
        head = await _head(git)
        base = await git.answer("merge-base", head, commit) if head else ""
    return git.differing(base, commit) if base else git.changed_by(commit)


async def _dropped(git: Git, update: RefUpdate, updates: Sequence[RefUpdate]) -> AsyncGenerator[bytes, None]:
    """Yield the paths of commits that no ref has after the push, unless the default branch has the same file."""
    pushed = {each.ref for each in (update, *updates)}
    kept = [tip for ref, tip in (await git.tips("refs")).items() if ref not in pushed]
    kept += [commit for each in updates if (commit := await _commit(git, each))]
    head = "" if await git.answer("symbolic-ref", "--quiet", "HEAD") == update.ref else await _head(git)
    async with aclosing(git.changed_by(update.old, excluded=kept)) as dropped:
        async for chunk in _chunks(dropped):
            if not head:
                for path in chunk:
                    yield path
                continue
            async with aclosing(git.differing(head, update.old)) as differing:
                async for path in differing:
                    if path in chunk:
                        yield path


async def _head(git: Git) -> str:
    """Return the commit of the default branch; empty if it has none yet."""
    return await git.answer("rev-parse", "--verify", "--quiet", "HEAD^{commit}")


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
        if len(chunk) >= _MAX_KNOWN or size >= _MAX_KNOWN_BYTES:
            yield chunk
            chunk, size = set(), 0
    if chunk:
        yield chunk
