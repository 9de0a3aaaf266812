"""Locks, where so many stand already."""

from collections.abc import Callable

from benchmarks.speed import client, wrk
from benchmarks.speed.client import Request, Site
from benchmarks.speed.turn import Turn

_LIMIT = 100
_WARM_SECONDS = 1
# More than are asked for at once, and more than any memory of pages holds.
_PAGES = 100
_FOLDERS, _OWNERS = 20, 50
FOUND = ("any", "folder", "owner", "folder_owner")
"""The filters by which a measured list finds locks."""

Page = Callable[[Site, str], Request]
"""A function that makes the request for the page of locks after a cursor."""


def _path(number: int | str) -> str:
    return f"content/{number if isinstance(number, str) else f'{number:08x}'}.tif"


def prepare(turn: Turn, *, level: int) -> None:
    """Let so many locks stand."""
    turn.server.lock(turn.site, turn.data, [_path(number) for number in range(turn.scale.level(level))])


def prepare_shared(turn: Turn, *, level: int) -> None:
    """Let so many locks of many owners stand in many folders, as many of each owner in each folder."""
    count = turn.scale.level(level)
    paths = [f"{_folder(number % _FOLDERS)}{number:08x}.tif" for number in range(count)]
    owners = [_owner(number // _FOLDERS % _OWNERS) for number in range(count)]
    turn.server.lock_for(turn.site, turn.data, paths, owners)


def find(turn: Turn) -> None:
    """List 100 locks of all, of a folder, of an owner, and of an owner in a folder."""
    folders = [f"&path_prefix={_folder(number)}" for number in range(_FOLDERS)]
    owners = [f"&owner={_owner(number)}" for number in range(_OWNERS)]
    both = [folder + owner for folder in folders for owner in owners]
    for what, filters in zip(FOUND, ([""], folders, owners, both), strict=True):
        row = f"lock_page_{what}"
        if row in turn.rows:
            requests: list[Request] = []
            for query in filters:
                requests += _pages_of(turn, query, most=_PAGES - len(requests))
            wrk.in_turn(turn.site, requests, seconds=_WARM_SECONDS)
            turn.tell_rate(row, wrk.in_turn(turn.site, requests, seconds=turn.scale.seconds))


def _pages_of(turn: Turn, query: str, *, most: int) -> list[Request]:
    """Return the requests for at most so many pages of what a query selects, each of which has as many locks as fit."""
    requests: list[Request] = []
    cursor = ""
    while len(requests) < most:
        request = client.get(turn.site, f"locks?limit={turn.scale.level(_LIMIT)}{query}{cursor}")
        told = client.ask(request).json()
        assert len(told["locks"]) == turn.scale.level(_LIMIT), f"a page is not full: {request.url}"
        requests.append(request)
        if "next_cursor" not in told:
            break
        cursor = f"&cursor={told['next_cursor']}"
    return requests


def _folder(number: int) -> str:
    return f"content/{number:02}/"


def _owner(number: int) -> str:
    return f"artist-{number:02}"


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
