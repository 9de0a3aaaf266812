"""Lists of locks (docs/protocol.md, "List locks")."""

from typing import Any

from services.conformance.answer import Answer
from services.conformance.case import case
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site

_MAX_PAGES = 150
_LOCKS = 5


async def _listed(site: Site, **query: str | int) -> tuple[Answer, list[dict[str, Any]]]:
    """Return the answer to a list, and its locks."""
    answer = await site.first.locks(**query)
    answer.expect_status(200)
    return answer, answer.listed(answer.body(), "locks")


def _ids(locks: list[dict[str, Any]]) -> list[object]:
    return [lock.get("id") for lock in locks]


@case("List locks", "200")
async def a_list_is_an_array_of_locks(site: Site) -> None:
    """The list of locks is answered with 200 and an array, in which a new lock stands as it was created."""
    lock = await site.lock()
    if await site.other_locks() > _LOCKS:
        raise NotApplicable("the repository has locks of others")
    answer, locks = await _listed(site)
    found = next((entry for entry in locks if entry.get("id") == lock["id"]), None)
    answer.expect(found == lock, f"the lock {lock}", repr(found))


@case("List locks", "path")
async def a_path_selects_its_lock(site: Site) -> None:
    """A query for a path gives the lock of exactly that path."""
    path = site.new_path("a b+c&d%.bin")
    locks = [await site.lock(name) for name in (path, f"{path}x", f"{path}/x")]
    answer, found = await _listed(site, path=path)
    answer.expect(_ids(found) == _ids(locks[:1]), f"the lock of {path} alone", [lock.get("path") for lock in found])


@case("List locks", "path")
async def a_path_without_a_lock_is_an_empty_list(site: Site) -> None:
    """A query for a path without a lock is answered with 200 and an empty array, not with 404 or null."""
    answer = await site.first.locks(path=site.new_path())
    answer.expect_status(200)
    answer.expect(answer.member(answer.body(), "locks", list) == [], "an empty array")


@case("List locks", "id")
async def an_id_selects_its_lock(site: Site) -> None:
    """A query for an id gives the lock with that id alone."""
    locks = [await site.lock() for _ in range(2)]
    answer, found = await _listed(site, id=locks[1]["id"])
    answer.expect(_ids(found) == _ids(locks[1:]), "the lock with that id alone", _ids(found))


@case("List locks", "id", Level.SHOULD)
async def two_filters_are_both_kept(site: Site) -> None:
    """A query for the id of one lock and the path of another gives none."""
    one, other = await site.lock(), await site.lock()
    answer, found = await _listed(site, id=one["id"], path=other["path"])
    answer.expect(not found, "an empty array", _ids(found))


async def _pages(site: Site, limit: int) -> tuple[Answer, list[list[dict[str, Any]]]]:
    """Follow next_cursor to the end, and return the last answer and the pages."""
    pages: list[list[dict[str, Any]]] = []
    query: dict[str, str | int] = {"limit": limit}
    while True:
        answer, locks = await _listed(site, **query)
        pages.append(locks)
        if "next_cursor" not in (body := answer.body()):
            return answer, pages
        cursor = answer.member(body, "next_cursor", str)
        if not cursor:
            return answer, pages
        answer.expect(cursor != query.get("cursor"), "another next_cursor on the next page", cursor)
        answer.expect(len(pages) < _MAX_PAGES, "an end of the pages", f"{_MAX_PAGES} pages with a next_cursor")
        query["cursor"] = cursor


@case("List locks", "cursor")
async def pages_follow_each_other(site: Site) -> None:
    """Page by page, every lock is listed once: none is lost and none comes twice (trap-16)."""
    await site.other_locks()
    made = sorted([(await site.lock())["id"] for _ in range(_LOCKS)])
    for limit in (2, 3, _LOCKS):
        answer, pages = await _pages(site, limit)
        found = [lock.get("id") for page in pages for lock in page]
        own = sorted(str(lock_id) for lock_id in found if lock_id in made)
        answer.expect(own == made, f"each of {_LOCKS} locks once, with a limit of {limit}", f"{len(own)} of them")


@case("List locks", "limit", Level.SHOULD)
async def a_limit_is_kept(site: Site) -> None:
    """A page has at most as many locks as the limit says, unless the server has a lower bound above it."""
    for _ in range(3):
        await site.lock()
    answer, locks = await _listed(site, limit=2)
    answer.expect(len(locks) <= 2, "2 locks at most", len(locks))
    answer.expect(answer.body().get("next_cursor"), "a next_cursor, as there are more")


@case("List locks", "limit", Level.SHOULD)
async def a_limit_out_of_bounds_is_no_server_error(site: Site) -> None:
    """A limit below 1 or far above the server's bound is replaced or refused, and is no error of the server."""
    site.require_locks()
    for limit in (0, -1, 10**9):
        answer = await site.first.locks(limit=limit)
        answer.expect(answer.status < 500, "a status below 500")


@case("List locks", "cursor", Level.SHOULD)
async def removals_shift_no_page(site: Site) -> None:
    """Locks that go between two pages take no other lock out of the next one (trap-16)."""
    if await site.other_locks():
        raise NotApplicable("the repository has locks of others")
    made = [await site.lock() for _ in range(_LOCKS)]
    answer, first = await _listed(site, limit=2)
    cursor = answer.body().get("next_cursor")
    if not isinstance(cursor, str) or len(first) != 2:
        raise NotApplicable("the server gives no pages of two locks")
    for lock in first:
        await site.first.unlock(str(lock.get("id")))
    rest = set(_ids(made)) - set(_ids(first))
    answer, second = await _listed(site, limit=100, cursor=cursor)
    answer.expect(rest <= set(_ids(second)), f"the {len(rest)} locks that were not listed yet", _ids(second))


@case("List locks", "refspec")
async def a_refspec_hides_no_lock(site: Site) -> None:
    """A refspec is for permission only, and hides no lock that was made without one."""
    site.require_no_ref()
    lock = await site.lock()
    answer = await site.first.locks(path=lock["path"], refspec="refs/heads/main")
    if answer.status == 403:
        raise NotApplicable("the user may not read for every ref")
    answer.expect_status(200)
    found = answer.objects(answer.body(), "locks")
    answer.expect(_ids(found) == [lock["id"]], "the lock", _ids(found))
