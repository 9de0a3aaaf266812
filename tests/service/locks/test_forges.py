"""Tokens of forges as credentials, over gRPC, at stubs of every kind of forge (docs/protocol.md, "Authentication")."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
from pydantic import SecretStr
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import (
    FailedPrecondition,
    InvalidArgument,
    NotFound,
    PermissionDenied,
    Reason,
    ResourceExhausted,
    ServiceError,
    Unauthenticated,
    Unavailable,
)
from services.locks.api.messages import FORGE_KIND_NUMBERS
from tests.support.forges import KINDS, Answer, Project, StubForge, Token, running_forge, throttled
from tests.support.locks import RunningLocks, is_refused, refused, running_locks
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS, until

READ, WRITE = access.PERMISSION_READ, access.PERMISSION_WRITE
FLOODED = "203.0.113.7"
GRANTED_SECONDS = 3.0
LIMITS = {
    "forge_granted_seconds": GRANTED_SECONDS,
    "forge_refused_seconds": 0.5,
    "forge_stale_seconds": 0.0,
    "forge_lookups_per_minute": 6_000,
    "forge_lookup_seconds": 2.0,
}


@pytest.fixture(scope="module")
async def service(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[RunningLocks]:
    """A lock service whose roles of forges count for some seconds."""
    database = await postgres.create_database()
    async with running_locks(database, tmp_path_factory.mktemp("locks"), limits=LIMITS) as running:
        yield running


@pytest.fixture(autouse=True)
async def new_tokens(service: RunningLocks) -> None:
    """Forget the tokens of other tests: the same text is no credential of two forges."""
    await service.execute("DELETE FROM tokens WHERE forge_id IS NOT NULL")


@pytest.fixture(params=KINDS)
def forge(request: pytest.FixtureRequest) -> Iterator[StubForge]:
    """A stub of each kind."""
    with running_forge(request.param) as running:
        yield running


@pytest.fixture
def gitea() -> Iterator[StubForge]:
    """A stub for rules that are the same for all kinds."""
    with running_forge("gitea") as running:
        yield running


async def _tie(service: RunningLocks, forge: StubForge, *, restricted: bool = False, creates: bool = False) -> str:
    """Add the stub as a forge and a repository tied to acme/film; return the repository's name."""
    name = f"{forge.kind}-{forge.number}"
    await service.admin_peer.call(
        service.admin.CreateForge,
        admin.CreateForgeRequest(
            name=name,
            kind=FORGE_KIND_NUMBERS[forge.kind],
            api_url=forge.api_url,
            repositories=[f"{name}/*"] if creates else ["acme/*"],
            creates_on_use=creates,
        ),
    )
    if creates:
        return name
    repository = f"studio/{name}"
    request = admin.CreateRepositoryRequest(
        name=repository, forge=name, forge_repository="acme/film", restricted=restricted
    )
    made = (await service.admin_peer.call(service.admin.CreateRepository, request)).repository
    assert (made.forge, made.forge_repository, made.restricted) == (name, "acme/film", restricted)
    return repository


async def _authenticate(
    service: RunningLocks, token: str, repository: str, address: str = "", *, is_limited: bool = False
) -> access.AuthenticateResponse:
    request = access.AuthenticateRequest(
        token=token, repository=repository, client_address=address, client_is_limited=is_limited
    )
    return await service.peer.call(service.access.Authenticate, request)


async def _check(
    service: RunningLocks,
    caller: access.AuthenticateResponse,
    repository: str,
    permission: access.Permission.ValueType,
    credential: str = "",
) -> access.CheckAccessResponse:
    request = access.CheckAccessRequest(
        user_id=caller.user_id,
        token_id=caller.token_id,
        repository=repository,
        permission=permission,
        credential=credential,
    )
    return await service.peer.call(service.access.CheckAccess, request)


async def _may(service: RunningLocks, token: str, repository: str) -> str:
    """Return what a token may do: `write`, `read` or nothing."""
    caller = await _authenticate(service, token, repository)
    allowed = ""
    for permission, word in ((READ, "read"), (WRITE, "write")):
        try:
            await _check(service, caller, repository, permission, token)
            allowed = word
        except (NotFound, PermissionDenied):
            break
    return allowed


async def test_roles_of_each_kind_of_forge(service: RunningLocks, forge: StubForge) -> None:
    """The forge's roles become ours; who has none there gets the answer of a repository that does not exist."""
    repository = await _tie(service, forge)
    for role, allowed in (("read", "read"), ("write", "write"), ("admin", "write")):
        forge.add(f"{role}-{forge.number}", f"token-{role}", role)
        caller = await _authenticate(service, f"token-{role}", repository)
        assert caller.user_name == f"{role}-{forge.number}"
        assert (caller.scoped, caller.renewed_by_credential) == (True, True)
        assert 0 < caller.keep_seconds <= GRANTED_SECONDS
        assert await _may(service, f"token-{role}", repository) == allowed
    forge.add("stranger", "token-stranger", None)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await _authenticate(service, "token-stranger", repository)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _authenticate(service, "invented", repository)


async def test_a_token_for_reading_does_not_write(service: RunningLocks, forge: StubForge) -> None:
    """The forge tells the rights of the account; the token may have fewer, and never gets those of another token."""
    repository = await _tie(service, forge)
    account = forge.add(f"careful-{forge.number}", "token-full", "write")
    forge.tokens["token-read"] = Token(account, can_push=False)
    assert await _may(service, "token-full", repository) == "write"
    assert await _may(service, "token-read", repository) == "read"
    reader = await _authenticate(service, "token-read", repository)
    writer = await _authenticate(service, "token-full", repository)
    assert reader.user_id == writer.user_id
    await until(lambda: _expired(service, reader, repository), "the role of the token ends")
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _check(service, reader, repository, WRITE, "token-full")


async def _expired(service: RunningLocks, caller: access.AuthenticateResponse, repository: str) -> bool:
    """Return whether the role of a token has to be renewed by its credential."""
    return await is_refused(Unauthenticated, _check(service, caller, repository, READ))


async def test_archived_repositories_are_for_reading(service: RunningLocks, forge: StubForge) -> None:
    """Nobody pushes to a repository that is archived at the forge."""
    repository = await _tie(service, forge)
    forge.add(f"late-{forge.number}", "token", "admin")
    forge.projects["acme/film"].archived = True
    assert await _may(service, "token", repository) == "read"


async def test_restricted_repositories(service: RunningLocks, forge: StubForge) -> None:
    """Code that everybody reads may have assets that only those read who may push."""
    repository = await _tie(service, forge, restricted=True)
    forge.add(f"member-{forge.number}", "token-member", "write")
    forge.add(f"public-{forge.number}", "token-public", None)
    forge.projects["acme/film"].visibility = "public"
    assert await _may(service, "token-member", repository) == "write"
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await _authenticate(service, "token-public", repository)
    assert not (await service.update_repository(repository, restricted=False)).restricted

    async def is_known() -> bool:
        return not await is_refused(NotFound, _authenticate(service, "token-public", repository))

    await until(is_known, "the refusal is forgotten")
    assert await _may(service, "token-public", repository) == "read"


async def test_a_right_that_is_taken_away_ends(service: RunningLocks, forge: StubForge) -> None:
    """The right ends within the granted time, and its row with the look-up that finds it gone."""
    repository = await _tie(service, forge)
    account = forge.add(f"leaving-{forge.number}", "token", "write")
    caller = await _authenticate(service, "token", repository)
    await _check(service, caller, repository, WRITE, "token")
    del forge.projects["acme/film"].roles[account]
    checked = partial(_check, service, caller, repository, READ, "token")
    await until(lambda: is_refused(NotFound, checked()), "the right ends")
    assert await service.execute("SELECT 1 FROM token_roles WHERE token_id = :id", id=caller.token_id) == []


async def test_a_token_that_is_revoked_at_the_forge_ends(service: RunningLocks, gitea: StubForge) -> None:
    """Its row is deleted, so that it is a stranger's from then on."""
    repository = await _tie(service, gitea)
    gitea.add(f"revoker-{gitea.number}", "token", "write")
    caller = await _authenticate(service, "token", repository)
    del gitea.tokens["token"]
    shown = partial(_authenticate, service, "token", repository)
    await until(lambda: is_refused(Unauthenticated, shown()), "the token ends")
    assert await service.execute("SELECT 1 FROM tokens WHERE id = :id", id=caller.token_id) == []


async def test_renamed_users_and_repositories(service: RunningLocks, forge: StubForge) -> None:
    """A user is known by the id; a repository that was renamed is followed to its new name, if that is allowed."""
    repository = await _tie(service, forge)
    account = forge.add(f"maiden-{forge.number}", "token-1", "write")
    before = await _authenticate(service, "token-1", repository)
    forge.logins[account] = f"married-{forge.number}"
    forge.tokens["token-2"] = Token(account)
    forge.projects["acme/movie"] = forge.projects.pop("acme/film")
    forge.renamed["acme/film"] = "acme/movie"
    after = await _authenticate(service, "token-2", repository)
    assert (after.user_id, after.user_name) == (before.user_id, before.user_name)
    assert await _may(service, "token-2", repository) == "write"
    forge.projects["evil/movie"] = forge.projects.pop("acme/movie")
    forge.renamed["acme/film"] = "evil/movie"
    forge.tokens["token-3"] = Token(account)
    assert await _may(service, "token-3", repository) == ""


async def test_a_login_is_no_proof_of_a_name_here(service: RunningLocks, gitea: StubForge) -> None:
    """Whoever calls itself like a user of ours at the forge is another user."""
    repository = await _tie(service, gitea)
    ours = await service.add_user(f"boss-{gitea.number}")
    gitea.add(f"boss-{gitea.number}", "token", "read")
    theirs = await _authenticate(service, "token", repository)
    assert theirs.user_id != ours
    assert theirs.user_name == f"boss-{gitea.number}@gitea-{gitea.number}"


async def test_tokens_of_apps_may_read(service: RunningLocks) -> None:
    """A GitHub App's token has no user, and no permissions are told for it; it reads what it sees."""
    with running_forge("github") as forge:
        repository = await _tie(service, forge)
        forge.projects["acme/film"] = Project(id=7, roles={0: "write"})
        forge.tokens["ghs_app"] = Token(0)
        assert (await _authenticate(service, "ghs_app", repository)).user_name == "film-app"
        assert await _may(service, "ghs_app", repository) == "read"
        forge.projects["acme/film"].roles.clear()
        forge.tokens["ghs_other"] = Token(0)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _authenticate(service, "ghs_other", repository)


@pytest.mark.parametrize(("kind", "scope"), [("gitlab", "read_api"), ("gitea", "read:user"), ("forgejo", "read:user")])
async def test_tokens_that_lack_a_scope(service: RunningLocks, kind: str, scope: str) -> None:
    """The refusal names what the token lacks."""
    with running_forge(kind) as forge:
        repository = await _tie(service, forge)
        forge.add("narrow", "token", "write", can_tell_account=False)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS) as caught:
            await _authenticate(service, "token", repository)
        assert scope in caught.value.message


async def test_tokens_of_ours_never_reach_a_forge(service: RunningLocks, gitea: StubForge) -> None:
    """Neither good tokens of ours, nor wrong ones, nor credentials for repositories that are tied to no forge."""
    repository = await _tie(service, gitea)
    await service.add_repository(f"free/{gitea.number}")
    user = f"local-{gitea.number}"
    await service.add_user(user)
    ours = await service.add_token(user)
    assert (await _authenticate(service, ours, repository)).user_name == user
    for token, name in (("tp_wrong", repository), ("token", f"free/{gitea.number}"), ("token", "no/such"), ("t", "")):
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _authenticate(service, token, name)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _authenticate(service, "with\nnewline", repository)
    assert gitea.requests == []


async def test_a_token_counts_only_at_its_forge(service: RunningLocks, gitea: StubForge) -> None:
    """A known token is not sent to another forge, and is nobody's in a repository of another or of none."""
    repository = await _tie(service, gitea)
    gitea.add(f"only-{gitea.number}", "token", "write")
    caller = await _authenticate(service, "token", repository)
    with running_forge("gitlab") as other:
        elsewhere = await _tie(service, other)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _authenticate(service, "token", elsewhere)
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await _check(service, caller, elsewhere, READ, "token")
        assert other.requests == []


async def test_no_administrator_by_the_token_of_a_forge(service: RunningLocks, gitea: StubForge) -> None:
    """AdminService asks no forge, so that a token of one, which may have ended there, opens nothing."""
    repository = await _tie(service, gitea)
    gitea.add(f"chief-{gitea.number}", "token", "admin")
    caller = await _authenticate(service, "token", repository)
    await service.execute("UPDATE users SET administrator = true WHERE id = :id", id=caller.user_id)
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await service.peer.call(service.admin.ListUsers, admin.ListUsersRequest(), secret=SecretStr("token"))


async def test_one_look_up_for_many_requests(postgres: TestPostgres, tmp_path: Path, gitea: StubForge) -> None:
    """Requests of one token that come together share a look-up, and what it told serves those that follow."""
    # So long that the role is valid until the last of them is answered.
    limits = {**LIMITS, "forge_granted_seconds": STEP_SECONDS}
    async with running_locks(await postgres.create_database(), tmp_path, limits=limits) as service:
        repository = await _tie(service, gitea)
        gitea.add("many", "token", "write")
        gitea.held.clear()
        asking = [asyncio.create_task(_authenticate(service, "token", repository)) for _ in range(20)]
        await until(lambda: bool(gitea.requests), "the look-up begins")
        gitea.held.set()
        callers = await asyncio.gather(*asking)
    assert len({(caller.user_id, caller.token_id) for caller in callers}) == 1
    assert [path.rpartition("/")[2] for path, _ in gitea.requests] == ["user", "film", "refs?service=git-receive-pack"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_throttled_forge_is_left_alone(service: RunningLocks, kind: str) -> None:
    """The refusal says when to come again; the forge gets no further request until then, whoever asks."""
    with running_forge(kind) as forge:
        repository = await _tie(service, forge)
        forge.instead = throttled(kind, 1_000)
        for token in ("one", "two", "one"):
            with refused(Unavailable, Reason.UNAVAILABLE) as caught:
                await _authenticate(service, token, repository)
            assert (caught.value.metadata["retry_after"], caught.value.metadata["undecided"]) == ("300", "true")
        assert len(forge.requests) == 1


async def test_the_limit_of_one_token_is_not_that_of_others(service: RunningLocks) -> None:
    """Whoever uses up the requests of a token of theirs keeps nobody else out."""
    with running_forge("github") as forge:
        repository = await _tie(service, forge)
        forge.add(f"honest-{forge.number}", "token", "write")
        forge.instead = Answer(
            403, {"message": "API rate limit exceeded for user ID 7."}, {"X-RateLimit-Remaining": "0"}
        )
        for _ in range(2):
            with refused(Unavailable, Reason.UNAVAILABLE):
                await _authenticate(service, "greedy", repository)
        assert len(forge.requests) == 1
        forge.instead = None
        assert await _may(service, "token", repository) == "write"


@pytest.mark.parametrize(
    "answer",
    [
        Answer(0),
        Answer(500),
        Answer(200, "no object"),
        Answer(200, {"id": "7", "login": "x"}),
        Answer(200, {"id": 7, "login": "x" * 2_000_000}),
        Answer(200, {"id": 10**4_000, "login": "x"}),
        Answer(302, {}, {"Location": "http://127.0.0.2:9/"}),
        Answer(302, {}, {"Location": "http://[/"}),
        Answer(302, {}, {"Location": "https://xn--/"}),
        Answer(418),
    ],
)
async def test_odd_answers_admit_nobody(service: RunningLocks, gitea: StubForge, answer: Answer) -> None:
    """Whatever it is that the forge says, it is no role, and worth another attempt."""
    repository = await _tie(service, gitea)
    gitea.instead = answer
    with refused(Unavailable, Reason.UNAVAILABLE) as caught:
        await _authenticate(service, "token", repository)
    assert 1 <= int(caught.value.metadata["retry_after"]) <= 300


async def test_made_on_first_use(service: RunningLocks, gitea: StubForge) -> None:
    """Whoever may write it at the forge makes the repository, once; whoever may read makes nothing."""
    prefix = await _tie(service, gitea, creates=True)
    name = f"{prefix}/new"
    account = gitea.add(f"maker-{gitea.number}", "token", "write", name)
    gitea.tokens["second"] = Token(account)
    gitea.add(f"looker-{gitea.number}", "reader", "read", name)
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await _authenticate(service, "reader", name)
    callers = await asyncio.gather(*(_authenticate(service, token, name) for token in ("token", "second")))
    checks = await asyncio.gather(
        *(
            _check(service, caller, name, WRITE, token)
            for caller, token in zip(callers, ("token", "second"), strict=True)
        )
    )
    assert len({check.repository_id for check in checks}) == 1
    listed = await service.admin_peer.call(service.admin.ListRepositories, admin.ListRepositoriesRequest())
    made = next(repository for repository in listed.repositories if repository.name == name)
    assert (made.forge, made.forge_repository, made.public, made.restricted) == (prefix, name, False, False)
    for other in (f"{prefix}/none", f"{prefix}/deep/er"):
        with pytest.raises((NotFound, Unauthenticated)):
            await _authenticate(service, "token", other)


async def test_another_tie_ends_the_roles(service: RunningLocks, gitea: StubForge) -> None:
    """Roles of one repository at the forge are none in another."""
    repository = await _tie(service, gitea)
    gitea.add(f"moved-{gitea.number}", "token", "write")
    gitea.projects["acme/other"] = Project(id=9)
    caller = await _authenticate(service, "token", repository)
    await service.update_repository(repository, forge=f"gitea-{gitea.number}", forge_repository="acme/other")
    with refused(NotFound, Reason.REPOSITORY_NOT_FOUND):
        await _check(service, caller, repository, READ, "token")
    await service.update_repository(repository, forge="")
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _check(service, caller, repository, READ, "token")


async def test_a_user_of_a_forge_may_have_grants_here(service: RunningLocks, gitea: StubForge) -> None:
    """A grant of ours counts for a token that the forge knows, even where the forge gives no role."""
    repository = await _tie(service, gitea)
    account = gitea.add(f"granted-{gitea.number}", "token", "read")
    caller = await _authenticate(service, "token", repository)
    await service.grant(caller.user_name, repository, admin.ROLE_WRITE, origin=f"forge gitea-{gitea.number}")
    del gitea.projects["acme/film"].roles[account]
    await until(lambda: _expired(service, caller, repository), "the role ends")
    assert await _may(service, "token", repository) == "write"


async def test_forges_are_listed_and_removed(service: RunningLocks, gitea: StubForge) -> None:
    """A forge to which repositories are tied stays; its removal ends its tokens, which no list of tokens shows."""
    repository, name = await _tie(service, gitea), f"gitea-{gitea.number}"
    gitea.add(f"gone-{gitea.number}", "token", "write")
    caller = await _authenticate(service, "token", repository)
    assert list(await service.tokens(caller.user_name)) == []
    listed = (await service.admin_peer.call(service.admin.ListForges, admin.ListForgesRequest())).forges
    assert [forge.api_url for forge in listed if forge.name == name] == [gitea.api_url]
    with refused(FailedPrecondition, Reason.FORGE_IN_USE):
        await service.admin_peer.call(service.admin.DeleteForge, admin.DeleteForgeRequest(name=name))
    await service.update_repository(repository, forge="")
    await service.admin_peer.call(service.admin.DeleteForge, admin.DeleteForgeRequest(name=name))
    with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
        await _check(service, caller, repository, READ, "token")
    with refused(NotFound, Reason.FORGE_NOT_FOUND):
        await service.admin_peer.call(service.admin.DeleteForge, admin.DeleteForgeRequest(name=name))


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("name", "-x"),
        ("kind", 9),
        ("api_url", ""),
        ("api_url", "ftp://git.example.org"),
        ("api_url", "https://user:secret@git.example.org"),
        ("api_url", "https://git.example.org/api?x=1"),
        ("repositories", []),
        ("repositories", ["*"]),
        ("repositories", ["acme/**/x"]),
        ("repositories", ["ac*me*/x"]),
    ],
)
async def test_malformed_forges(service: RunningLocks, field: str, value: object) -> None:
    """Each is refused by the name of its field."""
    good: dict[str, object] = {
        "name": "malformed",
        "kind": admin.FORGE_KIND_GITEA,
        "api_url": "https://git.example.org/api/v1",
        "repositories": ["acme/*"],
    }
    with refused(InvalidArgument, Reason.INVALID_FIELD, f"{field}: "):
        await service.admin_peer.call(
            service.admin.CreateForge,
            admin.CreateForgeRequest(**{**good, field: value}),  # type: ignore[arg-type] # one of them is malformed
        )


async def test_malformed_ties(service: RunningLocks, gitea: StubForge) -> None:
    """A tie needs a forge, and a repository that the forge allows."""
    name = (await _tie(service, gitea)).rpartition("/")[2]
    for forge, forge_repository, restricted in (
        ("", "acme/film", False),
        ("", "", True),
        (name, "", False),
        (name, "evil/film", False),
        (name, "acme/../film", False),
    ):
        request = admin.CreateRepositoryRequest(
            name="x/y", forge=forge, forge_repository=forge_repository, restricted=restricted
        )
        with refused(InvalidArgument, Reason.INVALID_FIELD):
            await service.admin_peer.call(service.admin.CreateRepository, request)
    with refused(NotFound, Reason.FORGE_NOT_FOUND):
        request = admin.CreateRepositoryRequest(name="x/y", forge="nobody", forge_repository="acme/film")
        await service.admin_peer.call(service.admin.CreateRepository, request)


@pytest.mark.drill
async def test_invented_tokens_cost_the_budget_and_honest_people_work_on(
    postgres: TestPostgres, tmp_path: Path, gitea: StubForge
) -> None:
    """10,000 invented tokens at two lock services cost no more look-ups than the budget has for strangers."""
    per_minute = 240
    # A flood that keeps all processors busy makes the look-ups of the stub slow, too.
    slow = {"forge_granted_seconds": 5.0, "forge_lookup_seconds": 5.0}
    limits = {**LIMITS, **slow, "forge_lookups_per_minute": per_minute}
    async with running_locks(await postgres.create_database(), tmp_path, limits=limits) as service:
        repository = await _tie(service, gitea)
        account = gitea.add("honest", "token", "write")
        honest = await _authenticate(service, "token", repository)
        began = asyncio.get_running_loop().time()
        async with service.second(tmp_path, limits=limits) as second:

            async def flood(numbers: range) -> list[str]:
                reasons = []
                for number in numbers:
                    try:
                        await _authenticate((service, second)[number % 2], f"invented-{number}", repository)
                    except ServiceError as error:
                        reasons.append(error.reason)
                return reasons

            floods = asyncio.gather(*(flood(range(at, 10_000, 16)) for at in range(16)))
            renewals = 0
            while not floods.done() or not renewals:
                await _check(service, honest, repository, WRITE, "token")
                renewals += 1
            reasons = [reason for found in await floods for reason in found]
        minutes = (asyncio.get_running_loop().time() - began) / 60
        assert len(reasons) == 10_000
        assert set(reasons) == {Reason.BAD_CREDENTIALS, Reason.UNAVAILABLE}
        strangers = {credential for _, credential in gitea.requests if credential.startswith("invented-")}
        # A burst of ten seconds, and what time has given since.
        assert len(strangers) <= per_minute / 4 * (minutes + 1 / 6) + 1
        assert account in gitea.logins


async def test_nobody_is_asked_for_an_address_over_its_limit(service: RunningLocks, gitea: StubForge) -> None:
    """Neither about an invented token nor about a good new one; who was known gets in, from the same address too."""
    repository = await _tie(service, gitea)
    for token in ("known", "new"):
        gitea.add(f"{token}-{gitea.number}", token, "write")
    known = await _authenticate(service, "known", repository, FLOODED)
    asked = len(gitea.requests)
    for token in ("invented", "new"):
        with refused(ResourceExhausted, Reason.RATE_LIMITED) as caught:
            await _authenticate(service, token, repository, FLOODED, is_limited=True)
        assert (caught.value.metadata["undecided"], caught.value.metadata["retry_after"]) == ("true", "5")
    again = await _authenticate(service, "known", repository, FLOODED, is_limited=True)
    assert (again.token_id, len(gitea.requests)) == (known.token_id, asked)
    assert (await _authenticate(service, "new", repository, FLOODED)).user_name == f"new-{gitea.number}"


async def test_one_address_locks_no_newcomer_out(service: RunningLocks, gitea: StubForge) -> None:
    """Of a burst of 250 look-ups of new tokens, one address gets 83, however many tokens it invents."""
    repository = await _tie(service, gitea)

    async def flood(number: int) -> tuple[str, str]:
        with pytest.raises((Unauthenticated, ResourceExhausted)) as caught:
            await _authenticate(service, f"invented-{number}", repository, FLOODED)
        return caught.value.reason, caught.value.metadata.get("undecided", "")

    began = asyncio.get_running_loop().time()
    flooding = asyncio.gather(*(flood(number) for number in range(300)))
    for number in range(30):
        gitea.add(f"newcomer-{gitea.number}-{number}", f"token-{number}", "read")
        newcomer = await _authenticate(service, f"token-{number}", repository, f"198.51.100.{number}")
        assert newcomer.user_name == f"newcomer-{gitea.number}-{number}"
    assert set(await flooding) == {(Reason.BAD_CREDENTIALS, ""), (Reason.RATE_LIMITED, "free")}
    asked = {credential for _, credential in gitea.requests if credential.startswith("invented-")}
    # The burst, and what time has given since.
    assert 83 <= len(asked) <= 84 + 3.125 * (asyncio.get_running_loop().time() - began)


async def test_one_address_does_not_hold_all_look_ups(service: RunningLocks, gitea: StubForge) -> None:
    """A forge that is slow is asked for two tokens of an address at once, and for those of others meanwhile."""
    repository = await _tie(service, gitea)
    gitea.held.clear()
    asking = [asyncio.create_task(_authenticate(service, f"invented-{n}", repository, FLOODED)) for n in range(12)]
    await until(lambda: len(gitea.requests) == 2, "the look-ups of one address begin")
    gitea.add(f"other-{gitea.number}", "token", "read")
    other = asyncio.create_task(_authenticate(service, "token", repository, "198.51.100.2"))
    await until(lambda: "token" in {credential for _, credential in gitea.requests}, "that of another one begins")
    assert len(gitea.requests) == 3
    gitea.held.set()
    assert (await other).user_name == f"other-{gitea.number}"
    assert {type(error) for error in await asyncio.gather(*asking, return_exceptions=True)} == {Unauthenticated}


async def test_away_for_a_while(postgres: TestPostgres, tmp_path: Path, gitea: StubForge) -> None:
    """Roles known before go on as long as the setting says; others wait; and nobody gets in who should not."""
    limits = {**LIMITS, "forge_granted_seconds": 1.0, "forge_stale_seconds": 4.0}
    async with running_locks(await postgres.create_database(), tmp_path, limits=limits) as service:
        repository = await _tie(service, gitea)
        gitea.add("known", "token", "write")
        gitea.add("reader", "token-read", "read")
        caller, reader = [await _authenticate(service, token, repository) for token in ("token", "token-read")]
        gitea.instead = Answer(0)
        await until(lambda: _expired(service, caller, repository), "the role has to be renewed")
        await _check(service, caller, repository, WRITE, "token")
        await _check(service, reader, repository, READ, "token-read")
        with refused(PermissionDenied, Reason.ACCESS_DENIED):
            await _check(service, reader, repository, WRITE, "token-read")
        with refused(Unauthenticated, Reason.BAD_CREDENTIALS):
            await until(lambda: _expired(service, reader, repository), "the role has to be renewed again")
            await _check(service, reader, repository, WRITE, "token")
        gitea.add("late", "token-late", "write")
        with refused(Unavailable, Reason.UNAVAILABLE) as caught:
            await _authenticate(service, "token-late", repository)
        assert 1 <= int(caught.value.metadata["retry_after"]) <= 300

        async def is_away() -> bool:
            return await is_refused(Unavailable, _check(service, caller, repository, WRITE, "token"))

        await until(is_away, "the time for which known roles go on is over")
        gitea.instead = None

        async def is_back() -> bool:
            return not await is_away()

        await until(is_back, "the forge answers again")
        assert await _may(service, "token-late", repository) == "write"
