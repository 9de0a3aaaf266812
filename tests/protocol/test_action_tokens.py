"""Scope of action tokens (docs/protocol.md, "Authentication" 2 and "Actions")."""

import itertools
import time
from collections.abc import Callable

import httpx
import pytest

from services.conformance.blobs import Blob, new_blob
from services.conformance.dialects import Dialect
from tests.protocol import tokens
from tests.protocol.administration import Administration
from tests.protocol.client import Action, Client, basic
from tests.protocol.conftest import NewRepository
from tests.support.stack import Stack

OPERATIONS = ["download", "upload", "verify"]
_NUMBERS = itertools.count(1)
# A machine under load may need more than the first of these lives to use a token once.
_LIVES_SECONDS = (2, 8, 32)


def perform(client: Client, operation: str, action: Action, blob: Blob, *headers: tuple[str, str]) -> httpx.Response:
    """Do what an operation does, with this action."""
    match operation:
        case "download":
            return client.get(action, *headers)
        case "upload":
            return client.put(action, blob.content, *headers)
    return client.verify(action, blob.entry, *headers)


def prepared(client: Client, operation: str) -> tuple[Blob, Action]:
    """Return an object and an action for it that would succeed."""
    blob = new_blob()
    if operation == "download":
        client.upload(blob)
    action = client.action(operation, blob)
    if operation == "verify":
        client.upload(blob)
    return blob, action


def assert_refused(answer: httpx.Response) -> None:
    """Assert 403 without an invitation to log in, after which a client would repeat for ever."""
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.endswith("-authenticate")]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_action_carries_all_that_it_needs(alice: Client, operation: str) -> None:
    """An action's own headers must authenticate it, because the client sends no others there (client-24, trap-30)."""
    blob, action = prepared(alice, operation)
    stranger = alice.showing(None)
    assert perform(stranger, operation, action, blob).status_code == 200
    assert_refused(perform(stranger, operation, {"href": action["href"]}, blob))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_expired_token_is_403_and_a_new_batch_gives_another(alice: Client, stack: Stack, operation: str) -> None:
    """An expired token is 403, because the git-lfs client repeats a 401 on an action URL without end (client-5)."""
    blob, action = prepared(alice, operation)
    claims = tokens.claims_of(action)
    assert perform(alice, operation, tokens.signed_anew(stack, action, claims), blob).status_code == 200
    expired = tokens.signed_anew(stack, action, {**claims, "exp": int(time.time()) - 1})
    assert_refused(perform(alice, operation, expired, blob))
    blob, action = prepared(alice, operation)
    assert perform(alice, operation, action, blob).status_code == 200


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_token_opens_no_other_object(alice: Client, operation: str) -> None:
    """A token is good for one object, so a client cannot use it to reach another object."""
    blob, action = prepared(alice, operation)
    _, other = prepared(alice, operation)
    assert_refused(perform(alice, operation, tokens.with_token(action, tokens.token_of(other)), blob))


def test_a_token_opens_no_other_size(alice: Client) -> None:
    """A client that announces a wrong size must not store the object, because the token is good for one size."""
    blob = new_blob()
    for size in (blob.size - 1, blob.size + 1):
        entry = alice.batch("upload", {"oid": blob.oid, "size": size}).json()["objects"][0]
        assert alice.put(entry["actions"]["upload"], blob.content).status_code == 400
        assert alice.verify(entry["actions"]["verify"], blob.entry).status_code in (400, 403, 404)
    assert not alice.holds(blob)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_token_opens_no_other_repository(
    alice: Client, public: Client, operation: str, new_repository: NewRepository
) -> None:
    """A token must open no other repository, not even one that holds the same object."""
    blob, action = prepared(alice, operation)
    for other in (public, new_repository()):
        other.upload(blob)
        elsewhere = {**action, "href": f"{other.base_url}/objects/{blob.oid}"}
        assert_refused(perform(alice, operation, elsewhere, blob))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_token_opens_no_other_operation(alice: Client, operation: str) -> None:
    """A token that only downloads must not upload, because it is good for one operation."""
    blob, action = prepared(alice, operation)
    alice.upload(blob)
    for other in OPERATIONS:
        answer = perform(alice, other, action, blob)
        assert answer.status_code == (200 if other == operation else 403)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_forged_token_is_403(alice: Client, operation: str, dialect: Dialect) -> None:
    """A token that is cut, edited, unsigned or absent opens nothing, because otherwise anybody could make one."""
    alice = alice.speaking(dialect)
    blob, action = prepared(alice, operation)
    token = tokens.token_of(action)
    flipped = token[:-2] + ("A" if token[-2] != "A" else "B") + token[-1]
    forged = [
        *(tokens.with_token(action, text) for text in ("x", "x.y.z", token[:-1], token[:-8], flipped, token + "A")),
        tokens.edited(action, exp=2**40),
        tokens.edited(action, oid=new_blob().oid),
        tokens.edited(action, operation="upload", size=2**40),
        tokens.unsigned(action),
    ]
    accept = [("Accept", dialect.media_type)] if operation != "verify" else []
    for attempt in forged:
        assert_refused(perform(alice, operation, attempt, blob, *accept))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_token_may_be_shown_again_within_its_life(alice: Client, operation: str) -> None:
    """A token works again within its life, because the client replays its action when it retries."""
    blob, action = prepared(alice, operation)
    assert [perform(alice, operation, action, blob).status_code for _ in range(3)] == [200, 200, 200]


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_credential_of_a_user_is_no_token_of_an_action(alice: Client, stack: Stack, operation: str) -> None:
    """The git-lfs client repeats a 401 on an action for ever, so a missing or bad token there is 403 (client-5)."""
    blob, action = prepared(alice, operation)
    secret = stack.tokens["alice"]
    for authorization in (f"Bearer {secret}", basic("alice", secret), "Basic !!!", "", "Digest x"):
        attempt = {**action, "header": {"Authorization": authorization}}
        assert_refused(perform(alice, operation, attempt, blob))


def test_the_token_of_an_action_is_no_credential(alice: Client) -> None:
    """A leaked action token must open nothing else, because it is no credential of the user."""
    action = alice.action("upload", new_blob())
    thief = alice.showing(f"Bearer {tokens.token_of(action)}")
    assert thief.batch("download", new_blob().entry).status_code == 401
    assert thief.locks().status_code == 401
    assert alice.showing(basic("alice", tokens.token_of(action))).locks().status_code == 401


@pytest.mark.parametrize("order", ["token first", "token last"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_of_several_authorization_headers_one_that_is_good_is_enough(
    alice: Client, stack: Stack, operation: str, order: str
) -> None:
    """The Bearer token counts beside the Authorization header that CI checkouts add to every request (client-9)."""
    blob, action = prepared(alice, operation)
    good = ("Authorization", f"Bearer {tokens.token_of(action)}")
    for other in (basic("x-access-token", stack.tokens["alice"]), basic("x", "wrong"), "Bearer wrong", "Basic !!!"):
        pair = [good, ("Authorization", other)]
        headers = pair if order == "token first" else pair[::-1]
        assert perform(alice, operation, {"href": action["href"]}, blob, *headers).status_code == 200, other


@pytest.mark.parametrize("operation", OPERATIONS)
def test_the_token_has_a_header_of_its_own(alice: Client, stack: Stack, operation: str) -> None:
    """The token has its own header, so that clients which add an Authorization to each request send one (client-9)."""
    blob, action = prepared(alice, operation)
    assert list(action["header"]) == ["X-Towpath-Token"]
    token = tokens.token_of(action)
    for headers in (
        [("X-Towpath-Token", token)],
        [("X-Towpath-Token", token), ("Authorization", basic("x", "wrong"))],
        [("X-Towpath-Token", token), ("Authorization", basic("x-access-token", stack.tokens["alice"]))],
        [("Authorization", f"{basic('x', 'wrong')}, Bearer {token}")],
        [("X-Towpath-Token", "wrong"), ("Authorization", f'Digest username="x", Bearer {token}, Basic !!!')],
    ):
        assert perform(alice, operation, {"href": action["href"]}, blob, *headers).status_code == 200, headers


@pytest.mark.parametrize("header", ["X-Towpath-Token", "Authorization"])
def test_no_other_header_is_taken_for_the_token(alice: Client, stack: Stack, header: str) -> None:
    """The credential of a user opens no action, and a header of very many tokens opens none either."""
    blob = alice.upload(new_blob())
    action = alice.action("download", blob)
    for shown in (
        stack.tokens["alice"],
        f"Bearer {stack.tokens['alice']}",
        "Bearer x, " * 100 + tokens.token_of(action),
    ):
        assert_refused(alice.send("GET", action["href"], headers=[(header, shown)]))


def test_several_authorization_headers_of_which_none_is_good_are_403(alice: Client) -> None:
    """Several Authorization headers open nothing unless one of them has the action's token (client-9)."""
    blob = alice.upload(new_blob())
    href = alice.action("download", blob)["href"]
    headers = [("Authorization", "Bearer wrong"), ("Authorization", basic("x", "y"))]
    assert_refused(alice.send("GET", href, headers=headers))


def test_who_loses_access_gets_no_new_action(
    operator: Administration, carol: Client, new_repository: NewRepository
) -> None:
    """A user who loses access gets no new action, so that access ends with the last action at the latest."""
    there = new_repository("contract/revoked")
    blob, carol = there.upload(new_blob()), carol.at(there.base_url)
    operator.grant("carol", "contract/revoked", "read")
    assert carol.holds(blob)
    operator.revoke("carol", "contract/revoked")
    operator.until(404, lambda: carol.batch("download", blob.entry))
    assert carol.locks().status_code == 403


Ending = Callable[[Administration, str, str], None]
ENDINGS: dict[str, Ending] = {
    "the token is revoked": lambda operator, user, _: operator.revoke_token(user, "contract"),
    "the grant is taken": lambda operator, user, repository: operator.revoke(user, repository),
    "the user is removed": lambda operator, user, _: operator.remove_user(user),
    "the repository is removed": lambda operator, _, repository: operator.remove_repository(repository),
}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_an_action_ends_with_the_access(
    operator: Administration, new_repository: NewRepository, ending: str, operation: str
) -> None:
    """An action ends within a second after its user's access, so that a stolen laptop uploads nothing."""
    number = next(_NUMBERS)
    name, user = f"contract/ended-{number}", f"leaver-{number}"
    there = new_repository(name)
    leaver = there.showing(f"Bearer {operator.add_user(user)}")
    operator.grant(user, name, "write")
    blob, action = prepared(leaver, operation)
    assert perform(leaver, operation, action, blob).status_code == 200
    ENDINGS[ending](operator, user, name)
    answer = operator.until(403, lambda: perform(leaver, operation, action, blob))
    assert_refused(answer)
    assert "has ended" in answer.json()["message"]


def test_an_upload_ends_with_the_right_to_its_ref(operator: Administration, new_repository: NewRepository) -> None:
    """A grant that is limited to other refs ends the actions that write, and no action that reads."""
    there = new_repository("contract/narrowed")
    user = there.showing(f"Bearer {operator.add_user('narrowed')}")
    operator.grant("narrowed", "contract/narrowed", "write")
    held, blob = there.upload(new_blob()), new_blob()
    reading = user.action("download", held)
    answer = user.batch("upload", blob.entry, ref={"name": "refs/heads/main"}).json()
    actions = answer["objects"][0]["actions"]
    assert perform(user, "upload", actions["upload"], blob).status_code == 200
    operator.grant("narrowed", "contract/narrowed", "write", refs=["refs/heads/other"])
    assert_refused(operator.until(403, lambda: perform(user, "upload", actions["upload"], blob)))
    assert_refused(perform(user, "verify", actions["verify"], blob))
    assert perform(user, "download", reading, held).status_code == 200


def test_a_download_by_nobody_ends_when_the_repository_becomes_private(
    operator: Administration, new_repository: NewRepository
) -> None:
    """An action that was given to nobody in particular ends then, and the action of a user with a grant goes on."""
    there = new_repository("contract/hidden", public=True)
    blob = there.upload(new_blob())
    public, own = there.showing(None).action("download", blob), there.action("download", blob)
    assert perform(there, "download", public, blob).status_code == 200
    operator.hide_repository("contract/hidden")
    assert_refused(operator.until(403, lambda: perform(there, "download", public, blob)))
    assert perform(there, "download", own, blob).status_code == 200


def test_an_action_ends_when_the_token_of_its_user_expires(
    operator: Administration, new_repository: NewRepository
) -> None:
    """An action ends at the time at which its user's token expires, although no change is reported then."""
    there = new_repository("contract/expiring")
    operator.add_user("expiring")
    operator.grant("expiring", "contract/expiring", "read")
    blob = there.upload(new_blob())
    for seconds in _LIVES_SECONDS:
        ends_at = time.time() + seconds
        user = there.showing(f"Bearer {operator.add_token('expiring', f'lives-{seconds}', seconds=seconds)}")
        batch = user.batch("download", blob.entry)
        if batch.status_code == 200:
            action = batch.json()["objects"][0]["actions"]["download"]
            answer = perform(user, "download", action, blob)
            if answer.status_code == 200:
                break
    assert answer.status_code == 200
    while answer.status_code == 200:
        # Postgres, on this host, has the same clock.
        is_late = time.time() > ends_at + 0.5
        answer = perform(user, "download", action, blob)
        assert answer.status_code == 403 or not is_late
    assert_refused(answer)


@pytest.mark.parametrize("method", ["DELETE", "MOVE", "TRACE"])
def test_other_methods_on_an_action_url_are_405_and_change_nothing(alice: Client, method: str) -> None:
    """An unsupported method must change nothing, and Allow names the supported ones, HEAD too."""
    blob, action = prepared(alice, "download")
    answer = alice.send(method, action["href"], headers=action["header"].items())
    assert answer.status_code == 405
    allowed = {"GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"}
    assert {name.strip() for name in answer.headers["allow"].split(",")} == allowed
    assert alice.get(action).content == blob.content


def test_an_unauthenticated_verify_of_an_unknown_object_harms_nothing(alice: Client, stack: Stack) -> None:
    """An unauthenticated verify of an unknown object must not kill the process for everybody else (trap-27)."""
    processes = stack.services("facade")
    assert_refused(alice.verify({"href": f"{stack.base_url}/objects/{'0' * 64}"}, {"oid": "0" * 64, "size": 1}))
    assert_refused(alice.verify({"href": f"{stack.origin}/no/such/objects/{'0' * 64}"}, b""))
    assert alice.locks().status_code == 200
    assert processes
    assert stack.services("facade") == processes
