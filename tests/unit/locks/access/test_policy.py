"""Permissions of a caller: the pure rule."""

import itertools

from hypothesis import given
from hypothesis import strategies as st

from services.locks.access.policy import Decision, Grant, Outcome, Permission, RepositoryAccess, Role, decide

_ALICE = RepositoryAccess(public=False, grants=[Grant(Role.ADMIN)])
_BOB = RepositoryAccess(public=False, grants=[Grant(Role.READ), Grant(Role.WRITE, ["refs/heads/bob"])])
_STRANGER = RepositoryAccess(public=False)
_PUBLIC = RepositoryAccess(public=True)

_GRANTS = st.lists(
    st.builds(Grant, st.sampled_from(Role), st.lists(st.sampled_from(["*", "refs/heads/bob"]), max_size=2))
)


def _decide(
    repository: RepositoryAccess | None, permission: Permission, ref: str = "", *, anonymous: bool = False
) -> Decision:
    return decide(anonymous=anonymous, repository=repository, permission=permission, ref=ref)


def test_the_access_examples_of_the_protocol() -> None:
    """Protocol "Batch", rule 4: A has full access, B has read-only access plus write access on one ref."""
    for party in (_ALICE, _BOB):
        assert _decide(party, Permission.READ).outcome is Outcome.ALLOWED
    assert _decide(_ALICE, Permission.WRITE).outcome is Outcome.ALLOWED
    assert _decide(_BOB, Permission.WRITE).outcome is Outcome.DENIED
    for party in (_ALICE, _BOB):
        assert _decide(party, Permission.WRITE, "refs/heads/bob").outcome is Outcome.ALLOWED
    assert _decide(_BOB, Permission.WRITE, "refs/heads/main").outcome is Outcome.DENIED


def test_a_grant_for_some_refs_is_one_for_any() -> None:
    """A user who may write one ref passes, whichever ref is named; a user who may only read, or nothing, does not."""
    for ref in ("", "refs/heads/bob", "refs/heads/main"):
        decision = _decide(_BOB, Permission.WRITE_ANY_REF, ref)
        assert (decision.outcome, decision.grant) == (Outcome.ALLOWED, _BOB.grants[1])
        reader = RepositoryAccess(public=True, grants=[Grant(Role.READ)])
        assert _decide(reader, Permission.WRITE_ANY_REF, ref).outcome is Outcome.DENIED
        assert _decide(_PUBLIC, Permission.WRITE_ANY_REF, ref).outcome is Outcome.DENIED
        anonymous = _decide(_PUBLIC, Permission.WRITE_ANY_REF, ref, anonymous=True)
        assert anonymous.outcome is Outcome.CREDENTIALS_REQUIRED


def test_administering_needs_the_role_for_every_ref() -> None:
    """A writer, a reader, and an admin of some refs are refused; an admin is not, whichever ref is named."""
    for ref in ("", "refs/heads/bob"):
        decision = _decide(_ALICE, Permission.ADMIN, ref)
        assert (decision.outcome, decision.grant) == (Outcome.ALLOWED, _ALICE.grants[0])
        limited = Grant(Role.ADMIN, ["*"])
        for grants in ([Grant(Role.WRITE)], [Grant(Role.READ)], [limited], []):
            refused = _decide(RepositoryAccess(public=True, grants=grants), Permission.ADMIN, ref)
            assert refused.outcome is Outcome.DENIED
        both = RepositoryAccess(public=False, grants=[limited, Grant(Role.ADMIN)])
        assert _decide(both, Permission.ADMIN, ref).outcome is Outcome.ALLOWED


def test_a_ref_never_limits_reading() -> None:
    """Reading needs a grant, whatever the ref."""
    assert _decide(_BOB, Permission.READ, "refs/heads/secret").outcome is Outcome.ALLOWED


def test_a_private_repository_is_not_there_for_strangers() -> None:
    """A user without a grant learns no more than of a repository that does not exist."""
    for repository, permission in itertools.product((_STRANGER, None), Permission):
        assert _decide(repository, permission).outcome is Outcome.NOT_FOUND


def test_an_anonymous_caller_learns_nothing_of_private_repositories() -> None:
    """An anonymous caller must be asked for credentials, whether the repository exists or not."""
    for repository, permission in itertools.product((_STRANGER, None), Permission):
        assert _decide(repository, permission, anonymous=True).outcome is Outcome.CREDENTIALS_REQUIRED


def test_anybody_reads_a_public_repository_and_nobody_writes_for_that() -> None:
    """Writing needs a grant, and of an anonymous caller its credentials."""
    assert _decide(_PUBLIC, Permission.READ, anonymous=True).outcome is Outcome.ALLOWED
    assert _decide(_PUBLIC, Permission.READ).outcome is Outcome.ALLOWED
    assert _decide(_PUBLIC, Permission.WRITE, anonymous=True).outcome is Outcome.CREDENTIALS_REQUIRED
    assert _decide(_PUBLIC, Permission.WRITE).outcome is Outcome.DENIED


def test_the_decision_says_why() -> None:
    """A user whose permission is refused must be able to learn the reason (trap-37)."""
    allowed = _decide(_BOB, Permission.WRITE, "refs/heads/bob")
    assert allowed.grant == _BOB.grants[1]
    refused = _decide(_BOB, Permission.WRITE, "refs/heads/main")
    assert refused.grant is None
    assert "refs/heads/bob" in refused.explanation
    assert "names none" in _decide(_BOB, Permission.WRITE).explanation


@given(_GRANTS, st.booleans(), st.booleans(), st.sampled_from(["", "refs/heads/bob", "HEAD", "a\0"]))
def test_who_may_write_may_read(grants: list[Grant], public: bool, anonymous: bool, ref: str) -> None:
    """Writing includes reading, and a grant never takes anything away."""
    repository = RepositoryAccess(public=public, grants=grants)
    write = _decide(repository, Permission.WRITE, ref, anonymous=anonymous).outcome
    read = _decide(repository, Permission.READ, ref, anonymous=anonymous).outcome
    assert write is not Outcome.ALLOWED or read is Outcome.ALLOWED
    more = RepositoryAccess(public=public, grants=[*grants, Grant(Role.WRITE)])
    if not anonymous:
        assert _decide(more, Permission.WRITE, ref).outcome is Outcome.ALLOWED


def test_a_long_list_of_refs_is_cut() -> None:
    """GRPC drops an error whose message is long, and the client would get another status."""
    wide = ["refs/heads/" + "x" * 240, *(f"refs/heads/{number}" for number in range(99))]
    few = RepositoryAccess(public=False, grants=[Grant(Role.WRITE, wide[1:4])])
    decision = _decide(RepositoryAccess(public=False, grants=[Grant(Role.WRITE, wide)]), Permission.WRITE, "other")
    assert decision.outcome is Outcome.DENIED
    assert decision.explanation == (
        f"the user may write only on refs like {wide[0]}, refs/heads/0, refs/heads/1, refs/heads/2 and 96 more, "
        "and this is another"
    )
    explanation = _decide(few, Permission.WRITE, "other").explanation
    assert explanation.endswith("like refs/heads/0, refs/heads/1, refs/heads/2, and this is another")


@given(_GRANTS, st.booleans(), st.sampled_from(Permission), st.sampled_from(["", "refs/heads/bob"]), st.booleans())
def test_an_archived_repository_is_refused_to_who_might_write(
    grants: list[Grant], public: bool, permission: Permission, ref: str, anonymous: bool
) -> None:
    """Every other decision is as before, so that nobody learns more than that."""
    before = _decide(RepositoryAccess(public, grants), permission, ref, anonymous=anonymous)
    archived = _decide(RepositoryAccess(public, grants, archived=True), permission, ref, anonymous=anonymous)
    if permission is not Permission.READ and before.outcome is Outcome.ALLOWED:
        assert archived.outcome is Outcome.ARCHIVED
    else:
        assert archived == before
