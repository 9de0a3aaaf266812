"""Creation of locks (docs/protocol.md, "Create lock" and "Lock object")."""

import asyncio
import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Any

from services.conformance.answer import Answer
from services.conformance.case import case
from services.conformance.outcome import Level, NotApplicable
from services.conformance.site import Site, lock_in
from services.conformance.strict_json import is_timestamp

_ID = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_CREATORS = 8
_TOLERANCE = timedelta(minutes=5)


async def _made(site: Site, path: str) -> tuple[Answer, dict[str, Any]]:
    """Return the answer to the creation of a lock, and the lock in it."""
    answer = await site.first.lock(path)
    return answer, answer.member(answer.body(), "lock", dict)


@case("Create lock", "201")
async def a_free_path_is_locked(site: Site) -> None:
    """The creation of a lock on a free path is answered with 201 and the lock."""
    path = site.new_path()
    answer, lock = await _made(site, path)
    answer.expect_status(201)
    answer.expect(lock.get("path") == path, f"the path {path}", lock.get("path"))


@case("Lock object", "id")
async def an_id_is_a_string(site: Site) -> None:
    """The id of a lock is a string that says something."""
    answer, lock = await _made(site, site.new_path())
    answer.text(lock, "id")


@case("Lock object", "id", Level.SHOULD)
async def an_id_needs_no_escape(site: Site) -> None:
    """The id has only characters that git-lfs may put into a URL as they are (client-22)."""
    answer, lock = await _made(site, site.new_path())
    answer.expect(_ID.fullmatch(str(lock.get("id"))), "letters, digits, - and _", lock.get("id"))


@case("Lock object", "path")
async def a_path_comes_back_as_it_was_sent(site: Site) -> None:
    """The path of a lock is byte for byte the one that was sent, with blanks and beyond ASCII."""
    for name in ("a b+c&d=e#f%20.bin", "caf\u00e9/\u540d\u524d.psd"):
        path = site.new_path(name)
        answer, lock = await _made(site, path)
        answer.expect(lock.get("path") == path, repr(path), lock.get("path"))


@case("Lock object", "locked_at")
async def locked_at_is_a_timestamp(site: Site) -> None:
    """The member locked_at is an uppercase RFC 3339 timestamp with second precision."""
    answer, lock = await _made(site, site.new_path())
    text = answer.member(lock, "locked_at", str)
    answer.expect(is_timestamp(text), "a time such as 2026-01-31T12:00:00Z", text)


@case("Lock object", "locked_at", Level.SHOULD)
async def locked_at_is_now(site: Site) -> None:
    """The time of a new lock is within five minutes of the server's Date header."""
    answer, lock = await _made(site, site.new_path())
    text = answer.member(lock, "locked_at", str)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise NotApplicable("locked_at is no timestamp") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    now = _date(answer)
    answer.expect(abs(moment - now) <= _TOLERANCE, f"a time near {now:%Y-%m-%dT%H:%M:%SZ}", text)


def _date(answer: Answer) -> datetime:
    try:
        return parsedate_to_datetime(answer.headers["date"]).astimezone(UTC)
    except (KeyError, ValueError):
        return datetime.now(UTC)


@case("Lock object", "owner", Level.SHOULD)
async def a_lock_names_its_owner(site: Site) -> None:
    """A lock has an owner with a name, without whom git-lfs dies in a push (client-4)."""
    answer, lock = await _made(site, site.new_path())
    owner = answer.member(lock, "owner", dict)
    answer.text(owner, "name")


@case("Lock object", "owner")
async def the_owner_is_who_sent_the_credentials(site: Site) -> None:
    """The locks of two users have two owners."""
    first, second = await site.lock(), await site.lock(client=site.second)
    answer = await site.first.locks(id=first["id"])
    owners = [lock.get("owner") for lock in (first, second)]
    answer.expect(owners[0] != owners[1] and None not in owners, "two owners", repr(owners))


@case("Create lock", "201", Level.SHOULD)
async def a_success_has_no_message(site: Site) -> None:
    """The answer to a success has no message, which git-lfs takes for a failure (client-20)."""
    answer = await site.first.lock(site.new_path())
    answer.expect(not answer.body().get("message"), "no message")


@case("States and transitions", "Create lock, path locked")
async def a_locked_path_is_409(site: Site) -> None:
    """A second lock on a path is refused with 409, for its owner too."""
    path = site.new_path()
    await site.lock(path)
    (await site.first.lock(path)).expect_status(409)


async def _conflict(site: Site) -> tuple[Answer, dict[str, Any]]:
    path = site.new_path()
    lock = await site.lock(path)
    return await site.first.lock(path), lock


@case("Create lock", "409")
async def a_conflict_has_the_standing_lock(site: Site) -> None:
    """The answer to a conflict has the lock that stands, with its id, path and owner (trap-17)."""
    answer, lock = await _conflict(site)
    found = answer.member(answer.body(), "lock", dict)
    for name in ("id", "path", "owner"):
        answer.expect(found.get(name) == lock.get(name), f"{name} {lock.get(name)!r}", found.get(name))


@case("Create lock", "409")
async def a_conflict_has_a_message(site: Site) -> None:
    """The answer to a conflict has a message."""
    answer, _ = await _conflict(site)
    answer.expect_message()


@case("States and transitions", "Create lock, path locked")
async def another_user_gets_409(site: Site) -> None:
    """A path that one user has locked is 409 for the other, and a lock in the answer is that of the first."""
    path = site.new_path()
    lock = await site.lock(path)
    answer = await site.second.lock(path)
    if answer.status == 403:
        raise NotApplicable("the second user may not lock")
    answer.expect_status(409)
    found = answer.body().get("lock")
    if isinstance(found, dict):
        answer.expect(found.get("owner") == lock.get("owner"), f"the owner {lock.get('owner')}", found.get("owner"))


@case("Create lock", "201")
async def of_several_creators_exactly_one_gets_the_lock(site: Site) -> None:
    """Of eight requests at once for one path, exactly one gets the lock (trap-14)."""
    for _ in range(2):
        path = site.new_path()
        answers = await asyncio.gather(*(site.first.lock(path) for _ in range(_CREATORS)))
        made = [answer for answer in answers if answer.is_success]
        answers[0].expect(len(made) == 1, "one success of eight", f"{len(made)} successes")


@case("Create lock", "ref")
async def a_lock_is_of_a_path_whatever_the_ref(site: Site) -> None:
    """A path that is locked with one ref is 409 with another, as the ref is for permission only."""
    site.require_no_ref()
    path = site.new_path()
    first = await site.first.lock(path, ref={"name": "refs/heads/one"})
    if first.status == 403:
        raise NotApplicable("the user may not lock for every ref")
    lock_in(first)
    (await site.first.lock(path, ref={"name": "refs/heads/two"})).expect_status(409)


@case("Create lock", "ref")
async def a_ref_of_null_is_no_ref(site: Site) -> None:
    """A lock with a ref of null is created like one without (trap-26)."""
    site.require_no_ref()
    lock_in(await site.first.lock(site.new_path(), ref=None))


@case("Create lock", "path")
async def a_lock_without_a_path_is_refused(site: Site) -> None:
    """A request without a path is refused."""
    site.require_locks()
    (await site.first.lock_without_path()).expect_refusal()


@case("Create lock", "path", Level.SHOULD)
async def a_path_out_of_the_tree_is_refused(site: Site) -> None:
    """A path with `..` is refused, as no working tree has it."""
    answer = await site.first.lock(f"{site.new_path('x')}/../../../../x")
    answer.expect_refusal()


@case("Lock object", "path")
async def a_folder_and_a_file_in_it_are_two_paths(site: Site) -> None:
    """A lock is of exactly one path: neither of what begins like it, nor of other spellings."""
    path = site.new_path("a")
    for name in (path, f"{path}/b", f"{path}b", f"{path[:-1]}A"):
        answer = await site.first.lock(name)
        answer.expect(answer.is_success, f"a lock on the free path {name}")


@case("States and transitions", "Create lock, path free", Level.SHOULD)
async def a_path_may_be_locked_again(site: Site) -> None:
    """After its lock is gone a path can be locked again, by a lock with another id."""
    path = site.new_path()
    lock = await site.lock(path)
    (await site.first.unlock(lock["id"])).expect(True, "")
    answer = await site.first.lock(path)
    again = lock_in(answer)
    answer.expect(again["id"] != lock["id"], "another id", again["id"])
