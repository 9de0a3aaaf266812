"""Twenty kinds of refusal, each made for real over HTTP, and what an administrator is told about them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import httpx
import pytest
from sqlalchemy import text
from towpath.access.v1 import admin_service_pb2 as admin

from services.common.errors import NotFound, Reason
from services.database.engine import create_engine
from tests.service.facade.conftest import Place
from tests.support.http import basic, content, oid_of
from tests.support.locks import refused
from tests.support.waiting import until

MEDIA = "application/vnd.git-lfs+json"
Ask = Callable[["Refusal"], Awaitable[httpx.Response]]


class Refusal:
    """A request that is refused, under an id of its own."""

    def __init__(self, place: Place, request_id: str) -> None:
        self.place = place
        self.inner = place.inner
        self.request_id = request_id

    async def batch(
        self, token: str | None, operation: str = "download", *, ref: str | None = None, base: str = ""
    ) -> httpx.Response:
        """Ask for a batch."""
        body: dict[str, Any] = {"operation": operation, "objects": [{"oid": "0" * 64, "size": 1}]}
        if ref is not None:
            body["ref"] = {"name": ref}
        return await self.send("POST", f"{base or self.place.base_url}/objects/batch", token, json=body)

    async def send(self, method: str, url: str, token: str | None, **arguments: Any) -> httpx.Response:  # noqa: ANN401
        """Send a request with the id."""
        headers = {"X-Request-Id": self.request_id, "Accept": MEDIA, "Content-Type": MEDIA}
        if token is not None:
            headers["Authorization"] = basic("any", token)
        async with httpx.AsyncClient() as client:
            return await client.request(method, url, headers=headers | arguments.pop("headers", {}), **arguments)

    async def call(self, name: str, request: Any) -> Any:  # noqa: ANN401 - whichever call
        """Call AdminService."""
        return await self.inner.locks.admin_peer.call(getattr(self.inner.locks.admin, name), request)

    async def lock_of_alice(self) -> str:
        """Return the id of a lock that alice holds."""
        async with self.place.client() as alice:
            answer = await alice.lock(f"{self.request_id}.psd")
        return str(answer.json()["lock"]["id"])

    async def known(self) -> Sequence[admin.RefusalRecord]:
        """Return the refusals that are known of it, none at first."""
        request = admin.ExplainRequestRequest(request_id=self.request_id)
        try:
            response: admin.ExplainRequestResponse = await self.call("ExplainRequest", request)
        except NotFound:
            return []
        return response.refusals

    @property
    def tokens(self) -> dict[str, str]:
        """The tokens of the users."""
        return self.inner.tokens


def batch(user: str, operation: str = "download", *, ref: str | None = None, repository: str = "") -> Ask:
    """Return what asks for a batch, as a user or as nobody, of the repository or of another one."""

    async def ask(case: Refusal) -> httpx.Response:
        base = f"{case.place.facade.origin}/{repository}" if repository else ""
        return await case.batch(case.tokens.get(user), operation, ref=ref, base=base)

    return ask


def request(method: str, path: str, user: str = "", **arguments: Any) -> Ask:  # noqa: ANN401 - those of httpx
    """Return what sends a request to a path of the repository, as a user or as nobody."""

    async def ask(case: Refusal) -> httpx.Response:
        return await case.send(method, f"{case.place.base_url}/{path}", case.tokens.get(user), **arguments)

    return ask


def unlock_by_bob(*, force: bool) -> Ask:
    """Return what unlocks a lock of alice."""

    async def ask(case: Refusal) -> httpx.Response:
        body = {"force": force, "ref": {"name": "refs/heads/bob"}}
        path = f"{case.place.base_url}/locks/{await case.lock_of_alice()}/unlock"
        return await case.send("POST", path, case.tokens["bob"], json=body)

    return ask


async def unknown_token(case: Refusal) -> httpx.Response:
    """Unknown token."""
    return await case.batch("tp_invented-by-somebody-who-guesses")


async def revoked_token(case: Refusal) -> httpx.Response:
    """Revoked token."""
    secret = await case.inner.locks.add_token("alice", case.request_id)
    await case.call("RevokeToken", admin.RevokeTokenRequest(user_name="alice", name=case.request_id))
    return await case.batch(secret)


async def expired_token(case: Refusal) -> httpx.Response:
    """Expired token."""
    secret = await case.inner.locks.add_token("bob", case.request_id)
    engine = create_engine(case.inner.locks.database_url, schema="locks", pool_size=1)
    async with engine.begin() as connection:
        statement = text("UPDATE tokens SET expires_at = now() WHERE name = :name")
        await connection.execute(statement, {"name": case.request_id})
    await engine.dispose()
    return await case.batch(secret)


async def anonymous_writes_in_public(case: Refusal) -> httpx.Response:
    """Anonymous writes in public."""
    await case.call("UpdateRepository", admin.UpdateRepositoryRequest(name=case.place.name, public=True))
    return await case.batch(None, "upload")


async def only_reads(case: Refusal) -> httpx.Response:
    """Only reads."""
    await case.inner.locks.grant("carol", case.place.name, admin.ROLE_READ)
    return await case.batch(case.tokens["carol"], "upload")


async def only_reads_by_group(case: Refusal) -> httpx.Response:
    """Only reads by group."""
    group = f"artists-{case.request_id}"
    await case.call("CreateGroup", admin.CreateGroupRequest(name=group))
    await case.call("AddGroupMembers", admin.AddGroupMembersRequest(group_name=group, user_names=["carol"]))
    grant = admin.GrantAccessRequest(group_name=group, repository=case.place.name, role=admin.ROLE_READ)
    await case.call("GrantAccess", grant)
    return await case.batch(case.tokens["carol"], "upload")


async def reader_locks(case: Refusal) -> httpx.Response:
    """Reader locks."""
    await case.inner.locks.grant("carol", case.place.name, admin.ROLE_READ)
    return await case.send("POST", f"{case.place.base_url}/locks", case.tokens["carol"], json={"path": "a.psd"})


async def action_of_an_ended_access(case: Refusal) -> httpx.Response:
    """Action of an ended access."""
    secret = await case.inner.locks.add_token("alice", case.request_id)
    data = content(case.request_id, 10)
    body = {"operation": "upload", "objects": [{"oid": oid_of(data), "size": len(data)}]}
    async with httpx.AsyncClient() as client:
        headers = {"Authorization": basic("any", secret), "Accept": MEDIA, "Content-Type": MEDIA}
        answer = await client.post(f"{case.place.base_url}/objects/batch", json=body, headers=headers)
        [entry] = answer.json()["objects"]
    action = entry["actions"]["upload"]
    await case.call("RevokeToken", admin.RevokeTokenRequest(user_name="alice", name=case.request_id))
    answers: list[httpx.Response] = []

    async def is_refused() -> bool:
        answers.append(await case.send("PUT", action["href"], None, headers=action["header"], content=data))
        return answers[-1].is_error

    # The facade hears of it within a second.
    await until(is_refused)
    return answers[-1]


ANOTHER_REF = batch("bob", "upload", ref="refs/heads/main")
NO_GRANT = batch("carol")
NO_TOKEN = request("GET", "locks", headers={"Authorization": "Digest x"})
NO_SUCH_LOCK = request("POST", "locks/987654321/unlock", "alice", json={})
# Each with the status, the words of the rule or message, the user, and the source of the credential.
CASES: dict[str, tuple[Ask, int, str, str, str]] = {
    "unknown-token": (unknown_token, 401, "the token is not valid", "", "unknown"),
    "revoked-token": (revoked_token, 401, "was revoked", "alice", "token ID"),
    "expired-token": (expired_token, 401, "has expired", "bob", "token ID"),
    "anonymous-in-private": (batch(""), 401, "may only read public repositories", "", "anonymous"),
    "anonymous-writes": (anonymous_writes_in_public, 401, "an anonymous caller may only read", "", "anonymous"),
    "anonymous-in-none": (batch("", repository="no/such"), 401, "may only read public repositories", "", "anonymous"),
    "no-such": (batch("alice", repository="no/such"), 404, "there is no such repository", "alice", "token laptop"),
    "impossible": (batch("alice", repository="a%20b"), 404, "there is no such repository", "alice", "token laptop"),
    "no-grant": (NO_GRANT, 404, "has no grant in this private repository", "carol", "token laptop"),
    "only-reads": (only_reads, 403, "no grant of the role write", "carol", "token laptop"),
    "another-ref": (ANOTHER_REF, 403, "this is another", "bob", "token laptop"),
    "no-ref": (batch("bob", "upload"), 403, "the request names none", "bob", "token laptop"),
    "only-reads-by-group": (only_reads_by_group, 403, "no grant of the role write", "carol", "token laptop"),
    "reader-locks": (reader_locks, 403, "no grant of the role write", "carol", "token laptop"),
    "ended-access": (action_of_an_ended_access, 403, "not valid any more", "alice", ""),
}
# Of these the answer alone is known, because it is decided beside the access.
UNDECIDED: dict[str, tuple[Ask, int, str, str, str]] = {
    "no-token": (NO_TOKEN, 401, "credentials are", "", "anonymous"),
    "unlock-of-another": (unlock_by_bob(force=False), 403, "LOCK_NOT_OWNED", "bob", "token laptop"),
    "forced-unlock": (unlock_by_bob(force=True), 403, "FORCE_NOT_ALLOWED", "bob", "token laptop"),
    "no-such-lock": (NO_SUCH_LOCK, 404, "no such lock", "alice", "token laptop"),
    "no-action-token": (request("GET", f"objects/{'0' * 64}"), 403, "TOKEN_REFUSED", "", "anonymous"),
    "no-route": (request("GET", "nothing", "alice"), 404, "nothing is served", "", "anonymous"),
}


@pytest.mark.parametrize("kind", [*CASES, *UNDECIDED])
async def test_a_refusal_is_explained(place: Place, kind: str) -> None:
    """The explanation has the true rule, whose credential it was, and no credential."""
    ask, status, words, user, source = {**CASES, **UNDECIDED}[kind]
    case = Refusal(place, f"{kind}-{place.repository_id}")
    answer = await ask(case)
    assert answer.status_code == status, answer.text
    assert answer.headers["x-request-id"] == case.request_id
    if answer.headers.get("content-type", "").endswith("json"):
        assert answer.json()["request_id"] == case.request_id

    async def is_explained() -> bool:
        # The decision, and what the client got.
        rules = [refusal.rule for refusal in await case.known()]
        return "the answer that the client got" in rules and (len(rules) > 1 or kind in UNDECIDED)

    await until(is_explained)
    refusals = await case.known()
    told = " ".join(map(str, refusals))
    assert words in told
    assert {refusal.user_name for refusal in refusals} - {""} == ({user} if user else set())
    assert source.replace("ID", case.request_id) in " ".join(refusal.source for refusal in refusals)
    for secret in (*case.tokens.values(), "invented-by"):
        assert secret not in told


async def test_grants_and_groups_are_told(place: Place) -> None:
    """Those that were looked at."""
    case = Refusal(place, f"grants-{place.repository_id}")
    assert (await ANOTHER_REF(case)).status_code == 403
    found: list[admin.RefusalRecord] = []

    async def is_known() -> bool:
        found.extend(refusal for refusal in await case.known() if refusal.grants)
        return bool(found)

    await until(is_known)
    [record] = found
    assert ("write", ["refs/heads/bob"]) in [(grant.role, list(grant.ref_patterns)) for grant in record.grants]
    assert (record.ref, record.permission, record.repository) == ("refs/heads/main", "write", place.name)


async def test_what_was_not_refused_is_not_found(place: Place) -> None:
    """Nothing is known of a request that was answered, once one that was refused after it is known."""
    case, later = (Refusal(place, f"{name}-{place.repository_id}") for name in ("answered", "later"))
    assert (await case.batch(case.tokens["alice"])).status_code == 200
    assert (await NO_GRANT(later)).status_code == 404

    async def is_known() -> bool:
        return len(await later.known()) == 2

    await until(is_known)
    with refused(NotFound, Reason.REQUEST_NOT_FOUND):
        await case.call("ExplainRequest", admin.ExplainRequestRequest(request_id=case.request_id))
