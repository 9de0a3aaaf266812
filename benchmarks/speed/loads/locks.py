"""Locks, where so many stand already."""

from collections.abc import Callable

from benchmarks.speed import client, wrk
from benchmarks.speed.client import Request, Site
from benchmarks.speed.turn import Turn

_LIMIT = 100
_WARM_SECONDS = 1
# More than are asked for at once, and more than any memory of pages holds.
_PAGES = 100

Page = Callable[[Site, str], Request]
"""A function that makes the request for the page of locks after a cursor."""


def _path(number: int | str) -> str:
    return f"content/{number if isinstance(number, str) else f'{number:08x}'}.tif"


def prepare(turn: Turn, *, level: int) -> None:
    """Let so many locks stand."""
    turn.server.lock(turn.site, turn.data, [_path(number) for number in range(turn.scale.level(level))])


def ask(turn: Turn, *, level: int) -> None:
    """List and verify 100 locks, look for those of one path, and lock more."""
    least = min(_LIMIT, turn.scale.level(level))
    pages(turn, row=f"lock_list_{level}", page=listing, least=least)
    pages(turn, row=f"lock_verify_{level}", page=verification, least=least)
    if not turn.asks_again:
        look_up(turn, level=level)
        create(turn, level=level)


def pages(turn: Turn, *, row: str, page: Page, least: int) -> None:
    """Ask for all pages of locks, or many of them, so that no two ask for the same at once.

    Raises AssertionError where the first has fewer than `least` locks.
    """
    if row in turn.rows:
        requests = [page(turn.site, "")]
        told = client.ask(requests[0]).json()
        assert len(told.get("locks") or told.get("ours") or []) >= least, f"{row}: fewer than {least} locks"
        while not turn.asks_again and len(requests) < _PAGES and (cursor := told.get("next_cursor")):
            requests.append(page(turn.site, cursor))
            told = client.ask(requests[-1]).json()
        wrk.in_turn(turn.site, requests, seconds=_WARM_SECONDS)
        turn.tell_rate(row, wrk.in_turn(turn.site, requests, seconds=turn.scale.seconds))


def look_up(turn: Turn, *, level: int) -> None:
    """Look for the lock of a path, another one each time."""
    row, standing = f"lock_by_path_{level}", turn.scale.level(level)
    if row in turn.rows:
        request = by_path(turn.site)
        wrk.numbered(turn.site, request, seconds=_WARM_SECONDS, first=0, wrap=standing)
        turn.tell_rate(row, wrk.numbered(turn.site, request, seconds=turn.scale.seconds, first=0, wrap=standing))


def create(turn: Turn, *, level: int) -> None:
    """Lock paths that nobody has locked."""
    row = f"lock_create_{level}"
    if row in turn.rows:
        # Nothing goes before it: each lock that is made is one more that stands.
        turn.tell_rate(row, wrk.numbered(turn.site, creation(turn.site), seconds=turn.scale.seconds, first=0))


def listing(site: Site, cursor: str = "") -> Request:
    """Return the request for a page of locks."""
    return client.get(site, f"locks?limit={_LIMIT}" + (f"&cursor={cursor}" if cursor else ""))


def verification(site: Site, cursor: str = "") -> Request:
    """Return what a push asks first, or next."""
    return client.post(site, "locks/verify", limit=_LIMIT, **({"cursor": cursor} if cursor else {}))


def by_path(site: Site) -> Request:
    """Return the numbered request for the lock of a path."""
    return client.get(site, f"locks?path={_path(wrk.NUMBER)}")


def creation(site: Site) -> Request:
    """Return the numbered request for a lock on a path that nobody has locked."""
    return client.post(site, "locks", path=f"new/{_path(wrk.NUMBER)}")
