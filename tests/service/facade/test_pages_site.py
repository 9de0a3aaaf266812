"""The pages of the whole site, for administrators, and of a user's own tokens."""

import itertools
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

import pytest
from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp
from towpath.access.v1 import access_service_pb2 as access
from towpath.access.v1 import admin_service_pb2 as admin

from services.locks.webhooks.worker import Retries
from tests.service.facade.page_visitor import Visitor, path_of, signed_in
from tests.support.facade import RunningFacade, running_facade
from tests.support.locks import RunningLocks, running_locks
from tests.support.postgres import TestPostgres
from tests.support.receiver import answer, running_receiver
from tests.support.storage import RunningStorage, running_storage
from tests.support.tabs import cookie_of
from tests.support.waiting import until, until_answer

Reply = TypeVar("Reply")

_ONCE = Retries(window=timedelta(0))
_MARKUP = '<img src="x" onerror="alert(1)">'
_SITE_PAGES = (
    "/-/site",
    "/-/site/repositories",
    "/-/site/bin",
    "/-/site/grants/studio/film",
    "/-/site/users",
    "/-/site/users/alice",
    "/-/site/groups",
    "/-/site/groups/artists",
    "/-/site/stores",
    "/-/site/hooks",
    "/-/site/forges",
    "/-/site/issuers",
    "/-/site/audit",
)
_numbers = itertools.count()


@dataclass
class Site:
    """A facade and its services, with alice, bob, a repository of theirs, and a group of artists."""

    facade: RunningFacade
    storage: RunningStorage
    locks: RunningLocks
    repository_id: int

    async def call(self, method: Callable[..., Awaitable[Reply]], request: Message) -> Reply:
        """Call AdminService."""
        return await self.locks.admin_peer.call(method, request)

    async def token(self, user: str, *, expires_at: int = 0) -> str:
        """Return a new token of a user, which may end (Unix time)."""
        request = admin.CreateTokenRequest(
            user_name=user,
            name=f"token-{next(_numbers)}",
            expires_at=Timestamp(seconds=expires_at) if expires_at else None,
        )
        return (await self.call(self.locks.admin.CreateToken, request)).secret


@pytest.fixture(scope="module")
async def site(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """A site whose webhooks are tried once."""
    folder: Path = tmp_path_factory.mktemp("site")
    database_url = await postgres.create_database()
    async with (
        running_storage(database_url, folder) as storage,
        running_locks(database_url, folder, storage_address=storage.address, retries=_ONCE) as locks,
        running_facade(storage.address, locks.address, failed_logins="1000000/hour") as facade,
    ):
        await locks.add_user("alice")
        await locks.add_user("bob")
        repository_id = await locks.add_repository("studio/film", public=True)
        await locks.grant("alice", "studio/film", admin.ROLE_WRITE, ref_patterns=["refs/heads/main"])
        await locks.admin_peer.call(locks.admin.CreateGroup, admin.CreateGroupRequest(name="artists"))
        yield Site(facade, storage, locks, repository_id)


@pytest.fixture
async def alice(site: Site) -> AsyncIterator[Visitor]:
    """Alice, who has signed in."""
    async with signed_in(site.facade, await site.token("alice")) as visitor:
        yield visitor


@pytest.fixture
async def root(site: Site) -> AsyncIterator[Visitor]:
    """An administrator, who has signed in."""
    async with signed_in(site.facade, site.locks.admin_token) as visitor:
        yield visitor


def secret_in(text: str) -> str:
    """Return the secret that a page shows."""
    found = re.search(r'aria-label="The secret of the new token">([^<]+)</pre>', text)
    assert found, text
    return found[1]


async def test_a_user_makes_a_token_and_sees_its_secret_once(site: Site, alice: Visitor) -> None:
    """The secret signs in, and no later page has it."""
    made = await alice.submit("/-/tokens", name="desk", days="30")
    assert made.status_code == 200
    assert made.headers["cache-control"] == "no-store"
    secret = secret_in(made.text)
    assert secret not in await alice.page("/-/tokens")
    async with signed_in(site.facade, secret) as other:
        tokens = await other.page("/-/tokens")
    [row] = re.findall(r"<tr>(?:(?!</tr>).)*this session(?:(?!</tr>).)*</tr>", tokens, re.DOTALL)
    assert "desk" in row


async def test_a_name_that_is_taken_is_told_in_the_form(alice: Visitor) -> None:
    """The form keeps what was typed."""
    await alice.submit("/-/tokens", name="twice", days="0")
    refused = await alice.submit("/-/tokens", name="twice", days="0")
    assert refused.status_code == 409
    assert 'role="alert"' in refused.text
    assert 'name="name" value="twice"' in refused.text
    assert '<option value="0" selected>' in refused.text


@pytest.mark.parametrize(
    ("fields", "named"),
    [({"name": "", "days": "30"}, "name"), ({"name": "x y", "days": "30"}, "name"), ({"name": "x"}, "days")],
)
async def test_a_wrong_field_is_named(alice: Visitor, fields: dict[str, str], named: str) -> None:
    """The browser checks fields too, but anybody may send a form."""
    refused = await alice.submit("/-/tokens", **fields)
    assert refused.status_code == 422
    assert f"{named}: expected" in refused.text


async def test_a_token_ends_no_later_than_the_one_of_the_session(site: Site) -> None:
    """The page says when the new token ends, because it is not what was asked for."""
    expires_at = int(time.time()) + 7_200
    async with signed_in(site.facade, await site.token("bob", expires_at=expires_at)) as visitor:
        made = await visitor.submit("/-/tokens", name="short", days="0")
    assert "It ends at" in made.text
    assert f"{time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(expires_at))}" in made.text


async def test_the_token_of_an_ssh_session_does_not_sign_in(site: Site) -> None:
    """Programs keep it, and their logs show it."""
    line = f"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{'C' * 43}"
    key = await site.call(
        site.locks.admin.AddSshKey, admin.AddSshKeyRequest(user_name="bob", name="session", public_key=line)
    )
    request = access.IssueSessionTokenRequest(
        fingerprint=key.key.fingerprint, repository="studio/film", may_write=True, valid_seconds=60
    )
    issued = await site.locks.peer.call(site.locks.access.IssueSessionToken, request)
    async with Visitor(site.facade.origin) as visitor:
        refused = await visitor.send("/-/sign-in", {"token": issued.token})
    assert refused.status_code == 401
    assert "the pages are for people" in refused.text


async def test_a_revoked_token_signs_in_no_more(site: Site, alice: Visitor) -> None:
    """The session that has revoked it goes on."""
    secret = secret_in((await alice.submit("/-/tokens", name="lost", days="90")).text)
    revoked = await alice.submit("/-/tokens/revoke", at="/-/tokens", name="lost")
    assert path_of(revoked) == "/-/tokens"
    assert "lost" not in await alice.page("/-/tokens")

    async def status() -> int:
        async with Visitor(site.facade.origin) as other:
            return (await other.send("/-/sign-in", {"token": secret})).status_code

    await until_answer(401, status)


async def test_with_its_own_token_a_session_is_over(alice: Visitor) -> None:
    """The browser is at the sign-in, without a cookie."""
    tokens = await alice.page("/-/tokens")
    [own] = re.findall(r'name="name" value="([^"]+)">\s*<p class="help">This session uses', tokens)
    ended = await alice.submit("/-/tokens/revoke", at="/-/tokens", name=own)
    assert (path_of(ended), cookie_of(ended)) == ("/-/sign-in", "")


async def test_a_token_that_is_gone_is_told_in_the_page(alice: Visitor) -> None:
    """Another tab may have revoked it."""
    refused = await alice.submit("/-/tokens/revoke", at="/-/tokens", name="never-made")
    assert refused.status_code == 404
    assert "you have no token never-made" in refused.text


async def test_only_a_form_of_the_session_makes_a_token(site: Site, alice: Visitor) -> None:
    """Another site could send the form otherwise."""
    stolen = {"name": "stolen", "days": "0"}
    assert (await alice.send("/-/tokens", {**stolen, "csrf": "guess"})).status_code == 403
    assert "stolen" not in await alice.page("/-/tokens")
    async with Visitor(site.facade.origin) as anonymous:
        assert path_of(await anonymous.send("/-/tokens", stolen)) == "/-/sign-in"


@pytest.mark.parametrize("path", ["/-/tokens", *_SITE_PAGES])
async def test_an_anonymous_visitor_is_led_to_the_sign_in(site: Site, path: str) -> None:
    """And from there back to the page."""
    async with Visitor(site.facade.origin) as visitor:
        asked = await visitor.get(path)
    assert path_of(asked) == "/-/sign-in"
    assert f"next={path.replace('/', '%2F')}" in asked.headers["location"]


@pytest.mark.parametrize("path", _SITE_PAGES)
async def test_only_an_administrator_sees_the_site(alice: Visitor, root: Visitor, path: str) -> None:
    """Others get the error page, and stay signed in."""
    refused = await alice.get(path)
    assert refused.status_code == 403
    assert "alice is not an administrator" in refused.text
    assert "set-cookie" not in refused.headers
    shown = await root.page(path)
    assert shown.count("<h1>") == 1
    assert 'aria-label="Administration"' in shown


@pytest.mark.parametrize(
    "path",
    [
        "/-/site/users/nobody",
        "/-/site/groups/none",
        "/-/site/grants/no/such",
        "/-/site/hooks/1000000",
        "/-/site/hooks/x",
    ],
)
async def test_what_does_not_exist_is_not_found(root: Visitor, path: str) -> None:
    """The error page says what is missing."""
    assert (await root.get(path)).status_code == 404


async def test_repositories_are_listed_and_filtered(site: Site, root: Visitor) -> None:
    """Each leads to its grants."""
    await site.locks.add_repository("games/castle")
    await site.call(
        site.locks.admin.UpdateRepository, admin.UpdateRepositoryRequest(name="games/castle", archived=True)
    )
    everything = await root.page("/-/site/repositories")
    assert '/-/site/grants/studio/film"' in everything
    found = await root.page("/-/site/repositories?name=CAST")
    assert "games/castle" in found
    assert "archived" in found
    assert "studio/film" not in found


async def test_a_repository_comes_out_of_the_bin(site: Site, root: Visitor) -> None:
    """The administrator sees its grants then."""
    await site.locks.add_repository("lost/one")
    await site.call(site.locks.admin.DeleteRepository, admin.DeleteRepositoryRequest(name="lost/one"))
    assert (
        path_of(await root.submit("/-/site/bin", **bin_fields(await root.page("/-/site/bin"))))
        == "/-/site/grants/lost/one"
    )
    assert "lost/one" in await root.page("/-/site/repositories")


async def test_under_a_name_that_is_taken_it_stays_in_the_bin(site: Site, root: Visitor) -> None:
    """With another name, it comes out."""
    await site.locks.add_repository("lost/two")
    await site.call(site.locks.admin.DeleteRepository, admin.DeleteRepositoryRequest(name="lost/two"))
    await site.locks.add_repository("lost/two")
    fields = bin_fields(await root.page("/-/site/bin"))
    refused = await root.submit("/-/site/bin", **fields)
    assert refused.status_code == 409
    assert 'role="alert"' in refused.text
    restored = await root.submit("/-/site/bin", **fields, new_name="lost/three")
    assert path_of(restored) == "/-/site/grants/lost/three"


def bin_fields(text: str) -> dict[str, str]:
    """Return the hidden fields of the first form of the bin, which is that of the latest removed repository."""
    found = re.search(r'name="id" value="(\d+)"><input type="hidden" name="name" value="([^"]+)"', text)
    assert found, text
    return {"id": found[1], "name": found[2]}


async def test_grants_have_their_roles_and_refs(site: Site, root: Visitor) -> None:
    """Those of groups stand beside those of users."""
    request = admin.GrantAccessRequest(group_name="artists", repository="studio/film", role=admin.ROLE_ADMIN)
    await site.call(site.locks.admin.GrantAccess, request)
    grants = await root.page("/-/site/grants/studio/film")
    assert "refs/heads/main" in grants
    assert '/-/site/users/alice"' in grants
    assert '/-/site/groups/artists"' in grants


async def test_users_are_paged_and_found_by_name(site: Site, root: Visitor) -> None:
    """Each user is on one page."""
    names = [f"user-{number:03d}" for number in range(101)]
    for name in names:
        await site.locks.add_user(name)
    found = [
        name for text in await root.pages("/-/site/users") for name in re.findall(r"/-/site/users/(user-\d+)", text)
    ]
    assert found == names
    assert path_of(await root.get("/-/site/users?name=alice")) == "/-/site/users/alice"


async def test_a_users_page_has_tokens_and_keys(site: Site, root: Visitor) -> None:
    """Secrets are nowhere."""
    key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl work"
    await site.call(site.locks.admin.AddSshKey, admin.AddSshKeyRequest(user_name="bob", name="work", public_key=key))
    secret = await site.token("bob")
    await site.call(
        site.locks.admin.UpdateUser,
        admin.UpdateUserRequest(name="bob", rate=admin.RequestRate(requests_per_hour=3_600)),
    )
    page = await root.page("/-/site/users/bob")
    assert "<dt>Requests</dt><dd>60/min" in page
    assert "administrator</span>" not in page
    assert "SHA256:" in page
    assert "token-" in page
    assert secret not in page


async def test_a_groups_members_are_listed(site: Site, root: Visitor) -> None:
    """Each leads to the user's page."""
    request = admin.AddGroupMembersRequest(group_name="artists", user_names=["alice", "bob"])
    await site.call(site.locks.admin.AddGroupMembers, request)
    members = re.findall(r'/-/site/users/(\w+)"', await root.page("/-/site/groups/artists"))
    assert members == ["alice", "bob"]


async def hook_to(site: Site, url: str) -> int:
    """Add a hook that hears of a lock, and let it hear of one."""
    request = admin.CreateHookRequest(repository="studio/film", url=url, events=["lock.created"], allow_private=True)
    hook = (await site.call(site.locks.admin.CreateHook, request)).hook
    paths = admin.LockPathsRequest(repository="studio/film", paths=[f"Maps/{next(_numbers)}.umap"], user_name="alice")
    await site.call(site.locks.admin.LockPaths, paths)
    return hook.id


async def test_failed_deliveries_are_made_anew(site: Site, root: Visitor) -> None:
    """One by one, or all at once; without failed ones, none is made."""
    async with running_receiver() as receiver:
        receiver.otherwise = answer(500)
        path = f"/-/site/hooks/{await hook_to(site, receiver.url)}"

        async def failed() -> int:
            return (await root.page(f"{path}?failed=1")).count("Deliver again")

        await until_answer(1, failed)
        [delivery] = re.findall(r'name="delivery" value="(\d+)"', await root.page(path))
        again = await root.submit(path, delivery=delivery)
        assert path_of(again) == path
        assert "1 delivery is made anew" in await root.page(again.headers["location"])
        await until(lambda: len(receiver.requests) == 2)
        await until_answer(1, failed)
        receiver.otherwise = answer(204)
        await root.submit(path)
        await until_answer(0, failed)
        none = await root.submit(path)
        assert "0 deliveries are made anew" in await root.page(none.headers["location"])
    await site.call(site.locks.admin.DeleteHook, admin.DeleteHookRequest(id=int(path.rpartition("/")[2])))


async def test_a_disabled_hook_says_why_nothing_is_delivered(site: Site, root: Visitor) -> None:
    """Its receiver has answered 410."""
    async with running_receiver() as receiver:
        receiver.otherwise = answer(410)
        path = f"/-/site/hooks/{await hook_to(site, receiver.url)}"

        async def disabled() -> bool:
            return "disabled" in await root.page(path)

        await until_answer(True, disabled)
        refused = await root.submit(path)
    assert refused.status_code == 409
    assert 'role="alert"' in refused.text
    assert "1 disabled" in await root.page("/-/site")


@pytest.mark.parametrize(
    ("path", "fields"), [("/-/site/bin", {"id": "1", "name": "lost/one"}), ("/-/site/hooks/1", {})], ids=["bin", "hook"]
)
async def test_nobody_else_changes_the_site(alice: Visitor, path: str, fields: dict[str, str]) -> None:
    """AdminService decides, whatever page the form came from."""
    assert (await alice.submit(path, at="/-/tokens", **fields)).status_code == 403


async def test_a_copy_shows_its_progress(site: Site, root: Visitor, tmp_path: Path) -> None:
    """The page tells of objects that a store lacks before the copy has begun."""
    await site.storage.write(site.repository_id, b"an object")
    url = (tmp_path / "second").as_uri()
    (tmp_path / "second").mkdir()
    await site.call(site.locks.admin.CreateStore, admin.CreateStoreRequest(name="second", url=url))
    stores = await root.page("/-/site/stores")
    assert "primary" in stores
    assert url in stores
    assert "1 object, 9 bytes</strong>" in stores
    assert "<progress" not in stores
    [primary] = [
        store.name
        for store in (await site.call(site.locks.admin.ListStores, admin.ListStoresRequest())).stores
        if store.is_primary
    ]
    await site.call(site.locks.admin.StartCopy, admin.StartCopyRequest(from_store=primary, to_store="second"))

    async def whole() -> bool:
        text = await root.page("/-/site/stores")
        assert "<progress" in text
        return 'value="100"' in text

    await until_answer(True, whole)


async def test_forges_and_issuers_are_listed_and_markup_stays_text(site: Site, root: Visitor) -> None:
    """The value of a claim may be anything that can be printed."""
    forge = admin.CreateForgeRequest(
        name="git", kind=admin.FORGE_KIND_GITEA, api_url="https://git.example.org/api/v1", repositories=["acme/*"]
    )
    await site.call(site.locks.admin.CreateForge, forge)
    forges = await root.page("/-/site/forges")
    assert "Gitea" in forges
    assert "acme/*" in forges
    issuer = admin.CreateIssuerRequest(
        name="sso", url="https://sso.example.org", audiences=["towpath"], user_claim="name", groups_claim="groups"
    )
    await site.call(site.locks.admin.CreateIssuer, issuer)
    mapping = admin.MapIssuerGroupRequest(issuer="sso", value=_MARKUP, group="artists")
    await site.call(site.locks.admin.MapIssuerGroup, mapping)
    claims = {"repository": _MARKUP}
    grant = admin.CreateIssuerGrantRequest(issuer="sso", repository="studio/film", role=admin.ROLE_WRITE, claims=claims)
    await site.call(site.locks.admin.CreateIssuerGrant, grant)
    issuers = await root.page("/-/site/issuers")
    assert issuers.count("&lt;img src=") == 2
    assert "<img" not in issuers


@pytest.mark.parametrize("path", ["/-/site/audit", "/-/site"])
async def test_a_reason_in_the_audit_log_stays_text(site: Site, root: Visitor, path: str) -> None:
    """A mark that turns text around is seen, and turns nothing."""
    oid = await site.storage.write(site.repository_id, path.encode())
    removal = admin.RemoveObjectRequest(repository="studio/film", oid=oid, reason=f"{_MARKUP}\u202egnp")
    await site.call(site.locks.admin.RemoveObject, removal)
    shown = await root.page(path)
    assert "&lt;img src=" in shown
    assert '<span class="code-point">U+202E</span>gnp' in shown
    assert "<img" not in shown
    assert "\u202e" not in shown


async def test_the_audit_log_is_filtered_and_shows_what_changed(site: Site, root: Visitor) -> None:
    """By actor, type, repository and time; the values before and after are those of the fields that differ."""
    await site.locks.add_repository("audited/one")
    change = admin.UpdateRepositoryRequest(name="audited/one", public=True)
    await site.call(site.locks.admin.UpdateRepository, change)
    log = await root.page("/-/site/audit?type=repository&repository=audited/one")
    assert "became" in log
    assert log.count('<th scope="row">') == 2
    assert "grant" not in "".join(re.findall(r'<th scope="row">(.*?)</th>', log))
    assert "No change matches" in await root.page("/-/site/audit?actor=nobody")
    assert "No change matches" in await root.page("/-/site/audit?since=2999-01-01T00:00")
    assert "No change matches" in await root.page("/-/site/audit?until=2001-01-01")
    assert 'value="audited/one"' in log


async def test_the_audit_log_is_paged_with_its_filters(site: Site, root: Visitor) -> None:
    """Each event is on one page."""
    for _ in range(30):
        for public in (True, False):
            change = admin.UpdateRepositoryRequest(name="studio/film", public=public)
            await site.call(site.locks.admin.UpdateRepository, change)
    texts = await root.pages("/-/site/audit?type=repository&repository=studio/film")
    assert len(texts) > 1
    assert sum(text.count('<th scope="row">') for text in texts) >= 60
    assert all('name="repository" value="studio/film"' in text for text in texts)


@pytest.mark.parametrize(
    "query", ["since=yesterday", "until=2026-13-01", "since=2026-01-01T00:00%2B01:00", "actor=%00", "cursor=x"]
)
async def test_a_wrong_filter_is_told_above_the_form(root: Visitor, query: str) -> None:
    """The form keeps the texts that were typed."""
    answered = await root.get(f"/-/site/audit?{query}")
    assert answered.status_code == 422
    assert 'role="alert"' in answered.text
    assert "<table" not in answered.text
