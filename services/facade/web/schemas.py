"""The schemas of request bodies and answer bodies (docs/protocol.md, "Resources and their fields").

`request_body.validate_body` reads a request's body; unknown fields are ignored. `responses.json_response` writes an
answer, without fields that are None.
"""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, WithJsonSchema

from services.common.rpc.client import Health

OID_PATTERN = "^[0-9a-f]{64}$"
LOCK_ID_PATTERN = "^[A-Za-z0-9_-]+$"
TIME_PATTERN = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$"
# Clients name four transfers at most; validating each takes long where there are many.
MAX_TRANSFERS = 64
MAX_LOCK_PATHS = 1000
MAX_NOTE_CHARACTERS = 500

_TRANSFERS = {
    "type": "array",
    "items": {"type": "string"},
    "maxItems": MAX_TRANSFERS,
    "anyOf": [{"maxItems": 0}, {"contains": {"const": "basic"}}],
}

# The lock service checks the length, and names the field.
Note = Annotated[str, WithJsonSchema({"type": "string", "maxLength": MAX_NOTE_CHARACTERS})]


class Body(BaseModel):
    """A JSON object in which nothing is taken for what it is not, such as "5" for 5."""

    model_config = ConfigDict(strict=True, extra="ignore")


class Ref(Body):
    """The ref that a request is about; it decides permission and, of locks, the lock space."""

    name: str | None = None


class WithRef(Body):
    """A request that may name a ref."""

    ref: Ref | None = None

    @property
    def ref_name(self) -> str:
        """The name of the ref, or an empty string where the request names none."""
        return (self.ref.name if self.ref else None) or ""


class ObjectEntry(Body):
    """An object of a batch; what is wrong with one is told in its entry of the answer, so all is taken in."""

    oid: Annotated[Any, WithJsonSchema({"type": "string", "pattern": OID_PATTERN})] = None
    size: Annotated[Any, WithJsonSchema({"type": "integer", "minimum": 0})] = None


class BatchRequest(WithRef):
    """The objects to transfer, and the direction (docs/protocol.md, "Batch")."""

    operation: Literal["download", "upload"]
    transfers: Annotated[list[str], Field(fail_fast=True), WithJsonSchema(_TRANSFERS)] | None = None
    objects: Annotated[list[ObjectEntry], Field(fail_fast=True)]
    hash_algo: Annotated[Any, WithJsonSchema({"default": "sha256"})] = None


class Action(Body):
    """A transfer of one object: the URL, the headers, and the time until which it can be used."""

    href: str
    header: dict[str, str]
    expires_in: int
    expires_at: str = Field(pattern=TIME_PATTERN)


class Actions(Body):
    """The actions of one object."""

    download: Action | None = None
    upload: Action | None = None
    verify: Action | None = None


class ObjectError(Body):
    """The error of one object of a batch."""

    code: int
    message: str


class ObjectAnswer(Body):
    """The answer for one entry of a batch; oid is empty and size is 0 where the entry had none of their type."""

    oid: str
    size: int
    authenticated: bool | None = None
    actions: Actions | None = None
    error: ObjectError | None = None


class BatchAnswer(Body):
    """One answer for each entry, in their order (protocol: "Batch", successful response)."""

    transfer: Literal["basic", "tus"] = "basic"
    objects: list[ObjectAnswer]
    hash_algo: Literal["sha256"] = "sha256"


class VerifyObjectRequest(Body):
    """The object that was uploaded (protocol: "Basic transfer: verify action")."""

    oid: str
    size: int


class CreateLockRequest(WithRef):
    """The path to lock (protocol: "Create lock")."""

    path: Annotated[str, WithJsonSchema({"type": "string", "minLength": 1})]
    note: Note | None = None


class VerifyLocksRequest(WithRef):
    """The page of locks to list (docs/protocol.md, "List locks for verification")."""

    cursor: str | None = None
    limit: int | None = None


class DeleteLockRequest(WithRef):
    """The removal of a lock, by force if it is another user's (docs/protocol.md, "Delete lock")."""

    force: bool | None = None
    reason: Note | None = None


class StealLockRequest(WithRef):
    """The theft of another user's lock (docs/protocol.md, "Steal lock")."""

    reason: Annotated[str, WithJsonSchema({"type": "string", "minLength": 1, "maxLength": MAX_NOTE_CHARACTERS})]
    note: Note | None = None


class LockPathsRequest(WithRef):
    """Paths to lock or unlock together; `atomic` means all of them or none.

    `note` is that of the new locks. `force` removes the locks of other users, for a `reason`; both have no meaning
    where paths are locked: this call takes over no lock.
    """

    paths: Annotated[list[str], Field(fail_fast=True, min_length=1, max_length=MAX_LOCK_PATHS)]
    force: bool | None = None
    atomic: bool | None = None
    note: Note | None = None
    reason: Note | None = None


class LockOwner(Body):
    """The user who holds a lock."""

    name: str


class Lock(Body):
    """One lock (protocol: "Lock object")."""

    id: str = Field(pattern=LOCK_ID_PATTERN)
    path: str
    locked_at: Annotated[datetime, WithJsonSchema({"type": "string", "pattern": TIME_PATTERN})]
    owner: LockOwner
    note: str | None = None
    space: str | None = Field(default=None, description="the lock space, unless it is the default one")


class ReleasedLock(Lock):
    """A lock that stands no more, and its release."""

    released_at: Annotated[datetime, WithJsonSchema({"type": "string", "pattern": TIME_PATTERN})]
    released_by: LockOwner
    forced: bool
    stolen: bool
    reason: str | None = None


class StolenLockAnswer(Body):
    """The new lock, and the lock that made way."""

    lock: Lock
    previous: ReleasedLock


class LockHistoryPage(Body):
    """A page of released locks."""

    locks: list[ReleasedLock]
    next_cursor: str | None = None


class LockAnswer(Body):
    """The lock that was created or deleted."""

    lock: Lock


class LockPage(Body):
    """A page of locks."""

    locks: list[Lock]
    next_cursor: str | None = None


class LockVerification(Body):
    """A page of locks, split by owner."""

    ours: list[Lock]
    theirs: list[Lock]
    next_cursor: str | None = None


class LockPathFailure(Body):
    """A path that was left as it is, and the reason, in words."""

    path: str
    reason: str


class LockPathsOutcome(Body):
    """The paths that are now locked, or unlocked, and those that are not."""

    paths: list[str]
    failures: list[LockPathFailure]


class LockPathsAnswer(Body):
    """The answer to a batch of paths: `batch`, or with `atomic` the `locks` that were created or removed."""

    batch: LockPathsOutcome | None = None
    locks: list[Lock] | None = None


class Error(Body):
    """The body of every error that is not one object's (protocol: "Error body")."""

    message: str
    request_id: str
    documentation_url: str | None = None
    lock: Lock | None = Field(default=None, description="the standing lock, in the answer 409 to Create or Steal lock")
    locks: list[Lock] | None = Field(default=None, description="the standing locks, in a 409 to many paths")
    failures: list[LockPathFailure] | None = Field(default=None, description="the failed paths, in a 409 to many paths")


class Readiness(Body):
    """The state of the inner services."""

    status: Literal["ready", "not ready", "draining"]
    services: dict[str, Health]
