"""Authentication by token (docs/protocol.md, "Authentication" 1 and 3 to 5, and "Credentials")."""

import base64

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import GENERIC, GIT_LFS, Dialect
from tests.protocol.administration import Administration
from tests.protocol.client import Client, basic
from tests.support.stack import Stack
from tests.support.waiting import blocking_until

ENDPOINTS = ["batch-download", "batch-upload", "locks", "lock", "verify", "unlock"]


def ask(client: Client, endpoint: str) -> httpx.Response:
    """Send a well-formed request to an endpoint."""
    match endpoint:
        case "batch-download" | "batch-upload":
            return client.batch(endpoint.removeprefix("batch-"), new_blob().entry)
        case "locks":
            return client.locks()
        case "lock":
            return client.lock("authentication.bin")
        case "verify":
            return client.verify_locks()
    return client.unlock("1")


def assert_challenged(answer: httpx.Response, realm: str = "Towpath") -> None:
    """Assert a 401 that tells a client how to log in."""
    assert answer.status_code == 401
    for name in ("blob-authenticate", "lfs-authenticate", "www-authenticate"):
        assert answer.headers[name] == f'Basic realm="{realm}"'


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_without_credentials_each_endpoint_answers_401_with_a_challenge(
    anonymous: Client, dialect: Dialect, endpoint: str
) -> None:
    """Every endpoint challenges a client without credentials, so that the client can log in."""
    assert_challenged(ask(anonymous.speaking(dialect), endpoint))


_BROWSER = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"


@pytest.mark.parametrize("endpoint", ENDPOINTS)
@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([], True),
        ([("Accept", "application/*, text/html;q=0.5"), ("User-Agent", "Python-urllib/3.11")], True),
        ([("Accept", GIT_LFS.media_type), ("User-Agent", "JGit/7.4.0")], True),
        ([("Accept", GIT_LFS.media_type), ("User-Agent", _BROWSER)], False),
        ([("Accept", "*/*"), ("User-Agent", _BROWSER)], False),
    ],
)
def test_all_but_browsers_get_the_standard_challenge(
    anonymous: Client, headers: list[tuple[str, str]], expected: bool, endpoint: str
) -> None:
    """JGit, Mercurial, curl and urllib know no other challenge; a browser would ask for a password."""
    method, path = {"locks": ("GET", "/locks"), "lock": ("POST", "/locks"), "verify": ("POST", "/locks/verify")}.get(
        endpoint, ("POST", "/locks/1/unlock" if endpoint == "unlock" else "/objects/batch")
    )
    answered_in = GIT_LFS if ("Accept", GIT_LFS.media_type) in headers else GENERIC
    answer = anonymous.speaking(answered_in).send(method, anonymous.base_url + path, headers=headers)
    assert answer.status_code == 401
    shown = answer.headers.get("www-authenticate")
    assert shown == (answer.headers["blob-authenticate"] if expected else None)


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_an_unknown_repository_is_401_too_for_nobody(anonymous: Client, stack: Stack, endpoint: str) -> None:
    """A caller without credentials learns of no private repository, because an unknown one is 401 too."""
    known, unknown = ask(anonymous, endpoint), ask(anonymous.at(f"{stack.origin}/no/such"), endpoint)
    assert_challenged(unknown)
    assert {**known.json(), "request_id": ""} == {**unknown.json(), "request_id": ""}


@pytest.mark.parametrize("endpoint", ENDPOINTS)
def test_wrong_credentials_are_401_on_each_endpoint(anonymous: Client, stack: Stack, endpoint: str) -> None:
    """Wrong credentials are 401 under a right user name too, because only the token identifies the user."""
    for base_url in (anonymous.base_url, f"{stack.origin}/no/such"):
        wrong = anonymous.at(base_url)
        assert_challenged(ask(wrong.showing("Bearer wrong"), endpoint))
        assert_challenged(ask(wrong.showing(basic("alice", "wrong")), endpoint))


@pytest.mark.parametrize("user", ["alice", "bob", "x", "", "jürgen", "名前", "a b"])
def test_the_token_is_the_password_under_any_user_name(anonymous: Client, stack: Stack, user: str) -> None:
    """The token alone is the credential, so any user name goes with it (protocol: Authentication 1)."""
    client = anonymous.showing(basic(user, stack.tokens["alice"]))
    assert client.batch("upload", new_blob().entry).status_code == 200
    lock = client.lock("any-name.bin").json()["lock"]
    assert client.unlock(lock["id"]).status_code == 200
    assert lock["owner"] == {"name": "alice"}


@pytest.mark.parametrize("password", ["", "x-oauth-basic", "tp_wrong", "pässwörd"])
def test_the_token_may_be_the_user_name(anonymous: Client, stack: Stack, password: str) -> None:
    """A token is a credential as the user name too, with any password, because programs for other forges send it so."""
    client = anonymous.showing(basic(stack.tokens["alice"], password))
    assert client.batch("upload", new_blob().entry).status_code == 200
    assert client.lock(f"user-name-{password}.bin").json()["lock"]["owner"] == {"name": "alice"}
    assert_challenged(anonymous.showing(basic("tp_wrong", password)).locks())


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_token_is_a_bearer_token(anonymous: Client, stack: Stack, scheme: str) -> None:
    """Clients spell Bearer in any case, so the scheme is compared without case."""
    client = anonymous.showing(f"{scheme} {stack.tokens['alice']}")
    assert client.batch("upload", new_blob().entry).status_code == 200


def test_a_user_name_in_another_encoding_is_no_error(anonymous: Client, stack: Stack) -> None:
    """A user name that is not UTF-8 is no error, because only the token identifies the user."""
    client = anonymous.showing(basic("jürgen", stack.tokens["alice"], encoding="latin-1"))
    assert client.locks().status_code == 200


# More of them are in tests/unit/facade/web/test_authorization_header.py.
@pytest.mark.parametrize(
    "authorization",
    [
        "",
        "Basic !!!",
        "Basic " + base64.b64encode(b"alice:a\x00b").decode(),
        basic("alice", "with:colon"),
        basic("alice", "pässwörd"),
        "Bearer " + "x" * 5000,
        "\xff\xfe",
    ],
)
def test_a_malformed_authorization_is_401(anonymous: Client, authorization: str) -> None:
    """A malformed header, or a password with `:` or beyond ASCII, is 401, because any stranger can send it."""
    assert_challenged(anonymous.showing(authorization).locks())


def test_a_revoked_token_is_401_and_is_told_by_its_name(
    anonymous: Client, operator: Administration, dialect: Dialect
) -> None:
    """A revoked token is 401 with its name at each endpoint and in each form, and a guessed one is only not valid."""
    name = f"revoked-{dialect.name}"
    secret = operator.add_token("alice", name)
    client = anonymous.speaking(dialect)
    assert client.showing(f"Bearer {secret}").locks().status_code == 200
    operator.revoke_token("alice", name)
    operator.until(401, client.showing(f"Bearer {secret}").locks)
    for shown in (f"Bearer {secret}", basic("alice", secret), basic(secret, ""), f"Bearer wrong, Bearer {secret}"):
        for endpoint in ENDPOINTS:
            answer = ask(client.showing(shown), endpoint)
            assert_challenged(answer)
            assert answer.json()["message"] == f"the token {name} was revoked"
    for wrong in (f"{secret}x", secret[:-1], name):
        answer = client.showing(f"Bearer {wrong}").locks()
        assert_challenged(answer)
        assert answer.json()["message"] == "the credentials are not valid"


@pytest.fixture(scope="module")
def expiring(operator: Administration) -> str:
    """A token of alice that expires in two seconds."""
    return operator.add_token("alice", "expires", seconds=2)


def test_an_expired_token_is_401_and_is_told_so(anonymous: Client, expiring: str, dialect: Dialect) -> None:
    """The owner of an expired token reads that it has expired, and whoever guesses reads only that it is not valid."""
    client = anonymous.speaking(dialect).showing(f"Bearer {expiring}")
    blocking_until(lambda: client.locks().status_code != 200, "the token has expired")
    answer = client.locks()
    assert_challenged(answer)
    assert answer.json()["message"] == "the token has expired"
    wrong = client.showing(f"Bearer {expiring}x").locks()
    assert_challenged(wrong)
    assert wrong.json()["message"] == "the credentials are not valid"


def test_wrong_credentials_open_no_public_repository_either(public: Client) -> None:
    """A mistyped token must be noticed, so the service does not treat its user as anonymous."""
    assert public.showing(None).locks().status_code == 200
    assert_challenged(public.showing("Bearer wrong").locks())


def test_anybody_reads_a_public_repository_and_logs_in_to_write(public: Client, dialect: Dialect) -> None:
    """A public repository is open to readers, but each write needs credentials (protocol: Authentication 3 and 5)."""
    nobody = public.showing(None).speaking(dialect)
    blob = public.upload(new_blob())
    assert nobody.get(nobody.action("download", blob)).content == blob.content
    assert nobody.locks().status_code == 200
    for endpoint in ("batch-upload", "lock", "verify", "unlock"):
        assert_challenged(ask(nobody, endpoint))


def test_a_known_user_without_a_grant_reads_a_public_repository_only(public: Client, carol: Client) -> None:
    """A user who may read gets 403 on a write, because the repository is no secret to that user."""
    carol = carol.at(public.base_url)
    assert ask(carol, "batch-download").status_code == 200
    assert ask(carol, "locks").status_code == 200
    for endpoint in ("batch-upload", "lock", "verify", "unlock"):
        assert ask(carol, endpoint).status_code == 403


def test_the_credential_never_comes_back(alice: Client, stack: Stack) -> None:
    """A user's credential must not appear in an answer or in the log, where others could read it (trap-25)."""
    blob = new_blob()
    secret = stack.tokens["alice"]
    for client in (alice, alice.showing(basic("alice", secret))):
        answer = client.batch("upload", blob.entry)
        assert secret not in answer.text
        assert secret not in str(answer.headers)
        assert base64.b64encode(f"alice:{secret}".encode()).decode() not in answer.text
    logged = [line for line in stack.log().splitlines() if line.startswith("{")]
    assert not [line for line in logged if secret in line]


def test_no_secret_is_one_that_ships_with_the_product(anonymous: Client) -> None:
    """A default secret that works would open every installation to everybody (trap-29)."""
    for secret in ("change-me", "changeme", "secret", "password", "admin", "local", "towpath", "alice"):
        assert_challenged(anonymous.showing(basic("admin", secret)).locks())
        assert_challenged(anonymous.showing(f"Bearer {secret}").locks())
