"""The locks of another server."""

from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import urlencode

from pydantic import BaseModel, Field, ValidationError

from services.cli.errors import CommandError
from services.transfer.retries import required
from services.transfer.server.http import Http, Refused

_MAX_LOCKS = 1_000_000
# The answers of servers without locks.
_NONE = (404, 501)


class _Owner(BaseModel):
    name: str = ""


class _Lock(BaseModel):
    path: str = Field(min_length=1)
    owner: _Owner | None = None
    locked_at: str | None = None
    space: str = ""


class _Page(BaseModel):
    locks: list[_Lock] | None = None
    next_cursor: str | None = None


class TheirLock(NamedTuple):
    """A lock at another server: a path, the owner's name there, and the time at which it was created, if it is known.

    `space` is that of a lock in a list that Towpath has written.
    """

    path: str
    owner: str
    locked_at: datetime | None
    space: str = ""


async def list_locks(http: Http, url: str) -> list[TheirLock] | None:
    """Return all locks below the base URL of a repository; None where the server has none at all.

    The first page is asked for without a limit: lfs-test-server then answers with all locks, and with one it leaves the
    last out where one more than a page is left. Raises `CommandError`.
    """
    found: list[TheirLock] = []
    cursor = ""
    seen = set[str]()
    while True:
        query = "?" + urlencode({"cursor": cursor}) if cursor else ""
        try:
            answer = await required(lambda: http.json("GET", f"{url}/locks{query}"))  # noqa: B023 - awaited here
            page = _Page.model_validate(answer)
        except Refused as error:
            if error.status in _NONE and not found:
                return None
            raise CommandError(f"{url}/locks: {error.message}") from error
        except ValidationError as error:
            raise CommandError(f"{url}/locks: the answer is none of the protocol") from error
        found += map(_read, page.locks or ())
        cursor = page.next_cursor or ""
        if not cursor:
            return found
        if cursor in seen or len(found) > _MAX_LOCKS:
            raise CommandError(f"{url}/locks: the pages do not end")
        seen.add(cursor)


def parse_list(document: object, name: str) -> list[TheirLock]:
    """Return the locks of a parsed list, as `git lfs locks --json` prints it. Raises `CommandError`."""
    try:
        return list(map(_read, _Page.model_validate({"locks": document}).locks or ()))
    except ValidationError as error:
        raise CommandError(f"{name}: expected a list of locks, as `git lfs locks --json` prints it") from error


def _read(lock: _Lock) -> TheirLock:
    owner = lock.owner.name if lock.owner is not None else ""
    try:
        moment = datetime.fromisoformat(lock.locked_at) if lock.locked_at else None
    except ValueError:
        moment = None
    if moment is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return TheirLock(lock.path, owner, moment, lock.space)
