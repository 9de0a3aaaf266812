"""Deletion of locks (docs/protocol.md, "Delete lock")."""

from services.conformance.case import case
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site

_UNKNOWN = "towpath-conformance-0"


async def _expect_standing(site: Site, lock: dict[str, object], *, stands: bool) -> None:
    answer = await site.first.locks(path=str(lock["path"]))
    if answer.status == 404 and not stands:
        return
    answer.expect_status(200)
    ids = [entry.get("id") for entry in answer.listed(answer.body(), "locks")]
    expected = "the lock that stands" if stands else "no lock, as it was removed"
    answer.expect((lock["id"] in ids) is stands, expected, ids)


@case("Delete lock", "200")
async def the_owner_removes_a_lock(site: Site) -> None:
    """The owner removes a lock with 200, and it is gone then."""
    lock = await site.lock()
    (await site.first.unlock(lock["id"])).expect_status(200)
    await _expect_standing(site, lock, stands=False)


@case("Delete lock", "200")
async def the_removed_lock_comes_back(site: Site) -> None:
    """The answer has the removed lock in the member lock (trap-21)."""
    lock = await site.lock()
    answer = await site.first.unlock(lock["id"])
    found = answer.member(answer.body(), "lock", dict)
    for name in ("id", "path"):
        answer.expect(found.get(name) == lock[name], f"{name} {lock[name]!r}", found.get(name))


@case("Delete lock", "200", Level.SHOULD)
async def a_success_has_no_message(site: Site) -> None:
    """The answer to a success has no message, which git-lfs takes for a failure (client-20)."""
    lock = await site.lock()
    answer = await site.first.unlock(lock["id"])
    answer.expect(not answer.body().get("message"), "no message")


@case("Delete lock", "force, ref")
async def every_member_may_be_null_or_missing(site: Site) -> None:
    """Every member of the request is optional, and may be null."""
    site.require_no_ref()
    for fields in ({}, {"ref": None}, {"force": False, "ref": None}):
        lock = await site.lock()
        (await site.first.unlock(lock["id"], **fields)).expect_status(200)


@case("Delete lock", "id")
async def an_unknown_lock_is_an_error(site: Site) -> None:
    """An id that no lock has is an error, also with force."""
    site.require_locks()
    for force in (False, True):
        answer = await site.first.unlock(_UNKNOWN, force=force)
        answer.expect_refusal()


@case("Delete lock", "id")
async def a_lock_that_is_gone_is_an_error(site: Site) -> None:
    """A lock is removed once: the second time is an error."""
    lock = await site.lock()
    await site.first.unlock(lock["id"])
    (await site.first.unlock(lock["id"])).expect_refusal()


@case("Delete lock", "403")
async def the_lock_of_another_stands_without_force(site: Site) -> None:
    """The lock of another user stands without force, and the answer is 403 (trap-22)."""
    lock = await site.lock()
    for fields in ({}, {"force": False}):
        answer = await site.second.unlock(lock["id"], **fields)
        answer.expect_status(403)
        await _expect_standing(site, lock, stands=True)


@case("Delete lock", "force, ref")
async def force_removes_the_lock_of_another(site: Site) -> None:
    """With force, a user who may push removes the lock of another user, and gets it back."""
    lock = await site.lock(client=site.second)
    answer = await site.first.unlock(lock["id"], force=True)
    if answer.status == 403:
        raise NotApplicable("the server keeps force from the first user")
    answer.expect_status(200)
    found = answer.member(answer.body(), "lock", dict)
    answer.expect(found.get("id") == lock["id"], f"the lock {lock['id']}", found.get("id"))
    await _expect_standing(site, lock, stands=False)


@case("Delete lock", "force, ref")
async def force_is_no_hindrance_for_the_owner(site: Site) -> None:
    """The owner may pass force, and the lock is gone then."""
    lock = await site.lock()
    answer = await site.first.unlock(lock["id"], force=True)
    if answer.status == 403:
        raise NotApplicable("the server keeps force from the first user")
    answer.expect_status(200)
    await _expect_standing(site, lock, stands=False)


@case("Delete lock", "403", Level.SHOULD)
async def a_refusal_names_the_owner(site: Site) -> None:
    """The message of a refused removal has the name of the lock's owner, whom the user has to ask."""
    # Who may not lock at all is told that instead.
    await site.lock(client=site.second)
    lock = await site.lock()
    answer = await site.second.unlock(lock["id"])
    answer.expect_status(403)
    message, owner = answer.expect_message(), lock.get("owner")
    name = owner.get("name") if isinstance(owner, dict) else None
    if not isinstance(name, str) or not name:
        raise NotApplicable("the locks name no owner")
    answer.expect(name in message, f"a message with {name}", message)
