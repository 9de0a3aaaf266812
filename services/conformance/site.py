"""The server under test as a case meets it: its users, and the first steps that many cases have in common."""

import secrets
from dataclasses import dataclass
from typing import Any

from services.conformance.answer import Answer
from services.conformance.blobs import Blob, new_blob
from services.conformance.client import Client, preparing
from services.conformance.outcome import Finding, NotApplicable

_MAX_OTHER_LOCKS = 100
_HELD_BYTES = 1000


@dataclass
class Site:
    """A repository, one or two users of it, and what is known about the server."""

    first: Client
    """The first user, who may read and write."""
    other: Client | None = None
    """The second user, if one is given."""
    has_locks: bool = True
    needs_credentials: bool = True
    """If set, an upload without credentials is refused."""
    _held: Blob | None = None

    @property
    def second(self) -> Client:
        """The second user. Raises `NotApplicable` without one."""
        if self.other is None:
            raise NotApplicable("needs a second user")
        return self.other

    @property
    def nobody(self) -> Client:
        """A client without credentials. Raises `NotApplicable` if the server asks for none."""
        if not self.needs_credentials:
            raise NotApplicable("the server asks for no credentials")
        return self.first.anonymous()

    def require_locks(self) -> None:
        """Raise `NotApplicable` if the server has no locks."""
        if not self.has_locks:
            raise NotApplicable("the server has no locks")

    def require_no_ref(self) -> None:
        """Raise `NotApplicable` if all requests name a ref, as these users may write no other."""
        if self.first.ref:
            raise NotApplicable("the requests name a ref")

    def new_path(self, name: str = "file.bin") -> str:
        """Return a path that nobody has locked. Raises `NotApplicable` if the server has no locks."""
        self.require_locks()
        return f"{self.first.ledger.prefix}/{secrets.token_hex(6)}/{name}"

    async def upload(self, size: int = 64) -> Blob:
        """Upload a new object, as a step before the case itself, and return it."""
        blob = new_blob(size)
        with preparing("the upload of an object"):
            answer = await self.first.store(blob)
            answer.expect(answer.is_success, "a success of the PUT")
            entry = await self.first.entry("download", blob)
            if "error" in entry:
                raise Finding("an object that can be downloaded", repr(entry["error"]))
        return blob

    async def held(self) -> Blob:
        """Return an object that the server holds, the same for all cases that only look at one."""
        if self._held is None:
            self._held = await self.upload(_HELD_BYTES)
        return self._held

    async def lock(self, path: str = "", client: Client | None = None) -> dict[str, Any]:
        """Lock a path, by default a new one for the first user, as a step before the case itself; return the lock.

        Raises `NotApplicable` if the second user may not.
        """
        client = client or self.first
        answer = await client.lock(path or self.new_path())
        if answer.status == 403 and client is self.other:
            raise NotApplicable("the second user may not lock")
        with preparing("the creation of a lock"):
            return lock_in(answer)

    async def other_locks(self) -> int:
        """Return the number of locks that the run has not made. Raises `NotApplicable` if these are many."""
        self.require_locks()
        with preparing("the list of locks"):
            answer = await self.first.locks()
            locks = answer.body().get("locks")
        prefix = f"{self.first.ledger.prefix}/"
        count = sum(1 for lock in locks or [] if not str(lock.get("path")).startswith(prefix))
        if count > _MAX_OTHER_LOCKS or answer.body().get("next_cursor"):
            raise NotApplicable("the repository has many locks of others")
        return count


def lock_in(answer: Answer) -> dict[str, Any]:
    """Return the lock of a successful answer, with its id and path as strings."""
    answer.expect(answer.is_success, "a success")
    lock = answer.member(answer.body(), "lock", dict)
    answer.member(lock, "id", str)
    answer.member(lock, "path", str)
    return lock
