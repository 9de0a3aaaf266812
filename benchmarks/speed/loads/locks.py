"""Locks, where so many stand already."""

from benchmarks.speed import client, wrk
from benchmarks.speed.client import Request, Site
from benchmarks.speed.turn import Turn

_LIMIT = 100
_WARM_SECONDS = 1
# More than are asked for at once, and more than any memory of pages holds.
_PAGES = 100


def _path(number: int | str) -> str:
    return f"content/{number if isinstance(number, str) else f'{number:08x}'}.tif"


def prepare(turn: Turn, *, level: int) -> None:
    """Let so many locks stand."""
    turn.server.lock(turn.site, turn.data, [_path(number) for number in range(turn.scale.level(level))])


def ask(turn: Turn, *, level: int) -> None:
    """List and verify 100 locks, look for those of one path, and lock more."""
    standing = turn.scale.level(level)
    for what, request, least in (
        ("list", listing(turn.site), min(_LIMIT, standing)),
        ("verify", verification(turn.site), min(_LIMIT, standing)),
        ("by_path", by_path(turn.site), 0),
    ):
        row = f"lock_{what}_{level}"
        if row in turn.rows:
            told = client.ask(request).json()
            assert len(told.get("locks") or told.get("ours") or []) >= least, f"{what}: fewer than {least} locks"
            wrk.numbered(turn.site, request, seconds=_WARM_SECONDS, first=0, wrap=standing)
            rate = wrk.numbered(turn.site, request, seconds=turn.scale.seconds, first=0, wrap=standing)
            turn.tell_rate(row, rate)
    list_pages(turn, level=level)
    create(turn, level=level)


def list_pages(turn: Turn, *, level: int) -> None:
    """List all locks, or many of them, so that no two ask for the same page at once."""
    row = f"lock_pages_{level}"
    if row in turn.rows:
        requests = [listing(turn.site)]
        while len(requests) < _PAGES and (cursor := client.ask(requests[-1]).json().get("next_cursor")):
            requests.append(client.get(turn.site, f"locks?limit={_LIMIT}&cursor={cursor}"))
        wrk.in_turn(turn.site, requests, seconds=_WARM_SECONDS)
        turn.tell_rate(row, wrk.in_turn(turn.site, requests, seconds=turn.scale.seconds))


def create(turn: Turn, *, level: int) -> None:
    """Lock paths that nobody has locked."""
    row = f"lock_create_{level}"
    if row in turn.rows:
        # Nothing goes before it: each lock that is made is one more that stands.
        turn.tell_rate(row, wrk.numbered(turn.site, creation(turn.site), seconds=turn.scale.seconds, first=0))


def listing(site: Site) -> Request:
    """Return the request for a page of locks."""
    return client.get(site, f"locks?limit={_LIMIT}")


def verification(site: Site) -> Request:
    """Return what a push asks first."""
    return client.post(site, "locks/verify", limit=_LIMIT)


def by_path(site: Site) -> Request:
    """Return the numbered request for the lock of a path."""
    return client.get(site, f"locks?path={_path(wrk.NUMBER)}")


def creation(site: Site) -> Request:
    """Return the numbered request for a lock on a path that nobody has locked."""
    return client.post(site, "locks", path=f"new/{_path(wrk.NUMBER)}")
