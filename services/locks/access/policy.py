"""The access policy: decides whether a user may do something in a repository.

It implements docs/protocol.md, "Authentication", rule 5, and the access examples of "Batch", rule 4.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from services.locks.ref_patterns import matching


class Role(StrEnum):
    """The role that a grant gives; each role includes the role before it."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


class Permission(StrEnum):
    """The permission that a request asks for."""

    READ = "read"
    WRITE = "write"
    WRITE_ANY_REF = "write on any ref"
    ADMIN = "administer"


class Outcome(StrEnum):
    """The result of a decision."""

    ALLOWED = "allowed"
    CREDENTIALS_REQUIRED = "credentials required"
    NOT_FOUND = "not found"
    DENIED = "denied"
    ARCHIVED = "archived"


@dataclass(frozen=True)
class Grant:
    """A role in the repository. Writing is limited to refs that match a pattern; without patterns it is not limited.

    `source` is the group, forge or issuer from which the user has the role, such as `group artists`, or empty.
    """

    role: Role
    ref_patterns: Sequence[str] = ()
    source: str = ""

    @property
    def subject(self) -> str:
        """The role in an explanation, with its source."""
        return f"the role {self.role} by the {self.source}" if self.source else f"the role {self.role}"


@dataclass(frozen=True)
class RepositoryAccess:
    """The input of a decision: whether anybody may read the repository, the user's grants in it, and its archiving."""

    public: bool
    grants: Sequence[Grant] = ()
    archived: bool = False


@dataclass(frozen=True)
class Session:
    """The bounds of a token of an SSH session: one repository, None if it did not exist, and whether to write there."""

    repository_id: int | None
    may_write: bool


@dataclass(frozen=True)
class Decision:
    """The outcome, its explanation in one sentence, and the grant that gave the access, if any."""

    outcome: Outcome
    explanation: str
    grant: Grant | None = None


_MAX_NAMED_CHARACTERS = 300

_PUBLIC = Decision(Outcome.ALLOWED, "the repository is public: anybody may read it")
_ARCHIVED = Decision(Outcome.ARCHIVED, "the repository is archived: it may be read, and nothing in it may be changed")
_MAY_ONLY_READ = Decision(Outcome.DENIED, "the user may read, but has no grant of the role write or admin")
_OTHER_REPOSITORY = Decision(Outcome.NOT_FOUND, "the token is that of an SSH session for another repository")
_READING_SESSION = Decision(Outcome.DENIED, "the token is that of an SSH session that reads: its operation is download")
_NO_ADMINISTRATION = Decision(Outcome.DENIED, "the token is that of an SSH session, with which nobody administers")


def decide(*, anonymous: bool, repository: RepositoryAccess | None, permission: Permission, ref: str) -> Decision:
    """Decide whether a user may do something in a repository; `repository` is None if it does not exist.

    Reading needs any grant, or a public repository; the ref never limits reading. Writing needs a grant of the role
    write or admin that has no ref patterns or a pattern that `ref` matches; an empty `ref` matches no pattern. The
    permission to write on any ref needs a grant of the role write or admin, whatever its patterns and the ref. To
    administer needs a grant of the role admin without ref patterns. Nobody may write to an archived repository; only
    who otherwise may learns why.
    """
    decision = _decide(anonymous=anonymous, repository=repository, permission=permission, ref=ref)
    is_write = permission is not Permission.READ and decision.outcome is Outcome.ALLOWED
    return _ARCHIVED if is_write and repository is not None and repository.archived else decision


def decide_in_session(session: Session, *, repository_id: int, permission: Permission) -> Decision | None:
    """Return the refusal of what is out of the bounds of a token's session; None for all that `decide` decides."""
    if session.repository_id != repository_id:
        return _OTHER_REPOSITORY
    if permission is Permission.ADMIN:
        return _NO_ADMINISTRATION
    if permission is not Permission.READ and not session.may_write:
        return _READING_SESSION
    return None


def highest_permission(repository: RepositoryAccess) -> Permission:
    """Return the most that a user may do without a ref in a repository that the user may read."""
    for permission in (Permission.ADMIN, Permission.WRITE, Permission.WRITE_ANY_REF):
        if _decide(anonymous=False, repository=repository, permission=permission, ref="").outcome is Outcome.ALLOWED:
            return permission
    return Permission.READ


def _decide(*, anonymous: bool, repository: RepositoryAccess | None, permission: Permission, ref: str) -> Decision:
    if anonymous:
        return _decide_anonymous(repository, permission)
    if repository is None:
        return Decision(Outcome.NOT_FOUND, "there is no such repository")
    if not (repository.public or repository.grants):
        return Decision(Outcome.NOT_FOUND, "the user has no grant in this private repository")
    if permission is Permission.WRITE:
        return _decide_write(repository.grants, ref)
    if permission is Permission.WRITE_ANY_REF:
        return _decide_write_any_ref(repository.grants)
    if permission is Permission.ADMIN:
        return _decide_admin(repository.grants)
    return _decide_read(repository.grants)


def _decide_anonymous(repository: RepositoryAccess | None, permission: Permission) -> Decision:
    if repository is None or not repository.public:
        return Decision(Outcome.CREDENTIALS_REQUIRED, "an anonymous caller may only read public repositories")
    if permission is not Permission.READ:
        return Decision(Outcome.CREDENTIALS_REQUIRED, "an anonymous caller may only read")
    return _PUBLIC


def _decide_read(grants: Sequence[Grant]) -> Decision:
    if grants:
        return Decision(Outcome.ALLOWED, f"{grants[0].subject} includes reading, whatever the ref", grants[0])
    return _PUBLIC


def _writing(grants: Sequence[Grant]) -> Sequence[Grant]:
    return [grant for grant in grants if grant.role in (Role.WRITE, Role.ADMIN)]


def _decide_write_any_ref(grants: Sequence[Grant]) -> Decision:
    for grant in _writing(grants):
        return Decision(Outcome.ALLOWED, f"{grant.subject} includes writing, if only on some refs", grant)
    return _MAY_ONLY_READ


def _decide_admin(grants: Sequence[Grant]) -> Decision:
    for grant in grants:
        if grant.role is Role.ADMIN and not grant.ref_patterns:
            return Decision(Outcome.ALLOWED, f"{grant.subject} includes everything here", grant)
    return Decision(Outcome.DENIED, "the user has no grant of the role admin for every ref")


def _decide_write(grants: Sequence[Grant], ref: str) -> Decision:
    writing = _writing(grants)
    for grant in writing:
        if not grant.ref_patterns:
            return Decision(Outcome.ALLOWED, f"{grant.subject} includes writing, on every ref", grant)
    for grant in writing:
        if pattern := matching(grant.ref_patterns, ref):
            return Decision(Outcome.ALLOWED, f"{grant.subject} includes writing, on refs like {pattern}", grant)
    if writing:
        patterns = _named(list(dict.fromkeys(pattern for grant in writing for pattern in grant.ref_patterns)))
        asked = "this is another" if ref else "the request names none"
        return Decision(Outcome.DENIED, f"the user may write only on refs like {patterns}, and {asked}")
    return _MAY_ONLY_READ


def _named(patterns: Sequence[str]) -> str:
    """Return the first of the patterns, and the number of the others: gRPC drops an error with a long message."""
    count = 1
    while count < len(patterns) and len(", ".join(patterns[: count + 1])) <= _MAX_NAMED_CHARACTERS:
        count += 1
    others = f" and {len(patterns) - count} more" if count < len(patterns) else ""
    return ", ".join(patterns[:count]) + others
