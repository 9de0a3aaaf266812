"""Lists of locks for verification (docs/protocol.md, "List locks for verification")."""

from typing import Any

from services.conformance.answer import Answer
from services.conformance.case import case
from services.conformance.client import Client
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site

_MAX_PAGES = 150


async def _split(client: Client, **fields: object) -> tuple[Answer, list[object], list[object]]:
    """Return the answer to a verification, and the ids of our and their locks."""
    answer = await client.verify_locks(**fields)
    answer.expect_status(200)
    body = answer.body()
    ours, theirs = (answer.listed(body, name) for name in ("ours", "theirs"))
    return answer, [lock.get("id") for lock in ours], [lock.get("id") for lock in theirs]


async def _all(site: Site, client: Client) -> tuple[Answer, list[object], list[object]]:
    """Return the same of all pages. Raises `NotApplicable` where others have many locks."""
    await site.other_locks()
    answer, ours, theirs = await _split(client)
    for _ in range(_MAX_PAGES):
        cursor = answer.body().get("next_cursor")
        if not isinstance(cursor, str) or not cursor:
            break
        answer, more, others = await _split(client, cursor=cursor)
        ours, theirs = ours + more, theirs + others
    return answer, ours, theirs


@case("List locks for verification", "200")
async def both_lists_are_there(site: Site) -> None:
    """The answer has the arrays ours and theirs, which are empty and not null where there are no locks (trap-18)."""
    site.require_locks()
    answer = await site.first.verify_locks()
    answer.expect_status(200)
    for name in ("ours", "theirs"):
        answer.objects(answer.body(), name)


@case("List locks for verification", "200")
async def own_locks_are_ours(site: Site) -> None:
    """A lock of the caller is in ours, and not in theirs."""
    lock = await site.lock()
    answer, ours, theirs = await _all(site, site.first)
    answer.expect(lock["id"] in ours and lock["id"] not in theirs, f"the lock {lock['id']} in ours alone")


@case("List locks for verification", "200")
async def locks_of_others_are_theirs(site: Site) -> None:
    """A lock of another user is in theirs, and not in ours, for each of two users."""
    first, second = await site.lock(), await site.lock(client=site.second)
    for client, own, other in ((site.first, first, second), (site.second, second, first)):
        answer, ours, theirs = await _all(site, client)
        answer.expect(own["id"] in ours and own["id"] not in theirs, f"the lock {own['id']} in ours alone")
        answer.expect(other["id"] in theirs and other["id"] not in ours, f"the lock {other['id']} in theirs alone")


@case("List locks for verification", "200", Level.SHOULD)
async def locks_name_their_owners(site: Site) -> None:
    """Every lock names its owner, without whom git-lfs dies in a push (client-4)."""
    await site.lock()
    answer = await site.first.verify_locks()
    answer.expect_status(200)
    body = answer.body()
    for lock in [*answer.listed(body, "ours"), *answer.listed(body, "theirs")]:
        answer.text(answer.member(lock, "owner", dict), "name")


@case("List locks for verification", "200", Level.SHOULD)
async def a_success_has_no_message(site: Site) -> None:
    """The answer to a success has no message, which git-lfs takes for a failure (client-20)."""
    site.require_locks()
    answer = await site.first.verify_locks()
    answer.expect(not answer.body().get("message"), "no message")


@case("List locks for verification", "ref, cursor, limit")
async def every_member_may_be_null_or_missing(site: Site) -> None:
    """Every member of the request is optional: an empty object and members of null are answered with 200."""
    site.require_locks()
    for fields in ({}, {"ref": None}, {"ref": None, "cursor": None, "limit": None}):
        (await site.first.verify_locks(**fields)).expect_status(200)


async def _walk(site: Site, limit: int) -> tuple[Answer, list[object]]:
    """Return the last answer, and the ids of the locks of all pages."""
    found: list[object] = []
    fields: dict[str, Any] = {"limit": limit}
    for _ in range(_MAX_PAGES):
        answer, ours, theirs = await _split(site.first, **fields)
        found += ours + theirs
        cursor = answer.body().get("next_cursor")
        if not cursor:
            return answer, found
        answer.expect(cursor != fields.get("cursor"), "another next_cursor on the next page", cursor)
        fields["cursor"] = answer.member(answer.body(), "next_cursor", str)
    answer.expect(False, "an end of the pages", f"{_MAX_PAGES} pages with a next_cursor")
    return answer, found


@case("List locks for verification", "ref, cursor, limit")
async def pages_follow_each_other(site: Site) -> None:
    """Page by page, every lock comes once: the cursor in the body is followed (trap-16)."""
    await site.other_locks()
    made = sorted([(await site.lock())["id"] for _ in range(5)])
    for limit in (2, 3, 5):
        answer, found = await _walk(site, limit)
        own = sorted(str(lock_id) for lock_id in found if lock_id in made)
        answer.expect(own == made, f"each of 5 locks once, with a limit of {limit}", f"{len(own)} of them")


@case("List locks for verification", "ref, cursor, limit", Level.SHOULD)
async def a_limit_is_kept(site: Site) -> None:
    """A page has at most as many locks as the limit in the body says (trap-16)."""
    for _ in range(3):
        await site.lock()
    answer, ours, theirs = await _split(site.first, limit=2)
    answer.expect(len(ours) + len(theirs) <= 2, "2 locks at most", len(ours) + len(theirs))


@case("List locks for verification", "404, never answered here", Level.SHOULD)
async def a_server_with_locks_verifies_them(site: Site) -> None:
    """A server that creates locks answers their verification: after 404 or 501 git-lfs checks no locks (client-8)."""
    if site.has_locks:
        return
    answer = await site.first.locks()
    if not answer.is_success:
        raise NotApplicable("the server has no locks")
    answer.expect(False, "a verification of locks that is not 404, as the list is there")
