"""The lines that a hook prints, which git shows to the user who pushes."""

from collections.abc import Iterator, Sequence
from datetime import UTC

from towpath.locks.v1.lock_service_pb2 import Lock

from services.cli.output import cell
from services.cli.push_hooks.push_client import Verdict

_MAX_LINES = 20


def refusal_lines(verdict: Verdict, pusher: str) -> Iterator[str]:
    """Yield the lines that tell why a push is refused: the locks in its way by path."""
    yield "towpath: others have locked what this push changes:"
    locks = sorted(verdict.blocking.values(), key=lambda lock: lock.path)
    yield from _bounded([f"{cell(lock.path)}: {_locked(lock)}" for lock in locks], verdict.more)
    if not pusher:
        yield (
            "towpath: nothing tells who pushes, so that every lock counts; whoever runs this git server can set "
            "TOWPATH_PUSHER"
        )
    elif not verdict.pusher_is_known:
        yield (
            f"towpath: {cell(pusher)} is no user of Towpath whom this git server may name, so that every lock counts; "
            "whoever runs it can map the name by TOWPATH_USER_MAP, or say by TOWPATH_PUSHER_FROM where users come from"
        )


def release_lines(locks: Sequence[Lock], ref: str) -> Iterator[str]:
    """Yield the lines that tell which locks a push has released; none if there are none."""
    if locks:
        yield f"towpath: the push to {cell(ref)} has released your locks:"
        yield from _bounded([cell(lock.path) for lock in locks], 0)


def _bounded(lines: Sequence[str], more: int) -> Iterator[str]:
    for line in lines[:_MAX_LINES]:
        yield f"  {line}"
    if left := len(lines[_MAX_LINES:]) + more:
        yield f"  and {left} more"


def _locked(lock: Lock) -> str:
    since = lock.locked_at.ToDatetime(tzinfo=UTC).strftime("%Y-%m-%d %H:%M UTC")
    note = f": {cell(lock.note)}" if lock.note else ""
    return f"locked by {cell(lock.owner_name)} since {since}{note}"
