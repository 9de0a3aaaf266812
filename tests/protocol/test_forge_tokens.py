"""The token of a forge as the credential of every request (docs/protocol.md, "Authentication", rule 6)."""

import json
from collections.abc import Iterator

import httpx
import pytest

from services.conformance.blobs import new_blob
from services.conformance.dialects import Dialect
from tests.protocol import tokens
from tests.protocol.administration import Administration
from tests.protocol.client import Client, basic
from tests.support.forges import Answer, StubForge, Token, running_forge, throttled
from tests.support.stack import Stack
from tests.support.waiting import blocking_until


@pytest.fixture
def forge(operator: Administration) -> Iterator[StubForge]:
    """A stub, to whose acme/film a repository of the same name as the stub is tied."""
    with running_forge("gitea") as running:
        operator.add_forge(f"f{running.number}", running.api_url, "acme/film")
        yield running


@pytest.fixture
def alice(stack: Stack, forge: StubForge, http: httpx.Client) -> Client:
    """A user who may write at the forge."""
    forge.add(f"alice-{forge.number}", f"secret-{forge.number}", "write")
    return Client(http, f"{stack.origin}/tied/f{forge.number}", basic("alice", f"secret-{forge.number}"))


def test_the_token_of_a_forge_moves_objects_and_locks_paths(alice: Client, forge: StubForge, dialect: Dialect) -> None:
    """The forge's role opens every endpoint, as Basic and as Bearer, and a lock has the forge's login as its owner."""
    blob, secret = new_blob(), f"secret-{forge.number}"
    for authorization in (basic("alice", secret), f"Bearer {secret}"):
        alice = alice.speaking(dialect).showing(authorization)
        entry = alice.entry("upload", blob)
        for name, action in entry.get("actions", {}).items():
            assert secret not in json.dumps(tokens.claims_of(action))
            done = alice.put(action, blob.content) if name == "upload" else alice.verify(action, blob.entry)
            assert done.status_code == 200
        assert alice.get(alice.action("download", blob)).content == blob.content
        locked = alice.lock(f"{authorization[:5]}.dat")
        assert locked.status_code == 201
        assert locked.json()["lock"]["owner"]["name"] == f"alice-{forge.number}"
        assert alice.unlock(locked.json()["lock"]["id"]).status_code == 200


def test_a_token_for_reading_at_the_forge_reads_only(alice: Client, forge: StubForge, dialect: Dialect) -> None:
    """A second token of the same account has its own rights, whichever of both was used before."""
    alice = alice.speaking(dialect)
    assert alice.batch("upload", new_blob().entry).status_code == 200
    account = next(iter(forge.logins))
    forge.tokens[f"reader-{forge.number}"] = Token(account, can_push=False)
    reader = alice.showing(basic("alice", f"reader-{forge.number}"))
    assert reader.batch("upload", new_blob().entry).status_code == 403
    assert reader.batch("download", new_blob().entry).status_code == 200
    assert reader.lock("a.dat").status_code == 403
    locked = alice.lock("a.dat").json()["lock"]["id"]
    assert reader.unlock(locked, force=True).status_code == 403
    assert alice.unlock(locked).status_code == 200


def test_an_action_outlives_the_role_and_ends_with_the_right(alice: Client, forge: StubForge) -> None:
    """An action renews the role by the credential in its token, and is 403 once the forge has taken the right away."""
    blob = new_blob()
    upload = alice.action("upload", blob)
    account = next(iter(forge.logins))
    asked = forge.lookups

    def put_after_another_lookup() -> bool:
        assert alice.put(upload, blob.content).status_code == 200
        return forge.lookups > asked

    blocking_until(put_after_another_lookup, "the role is renewed")
    del forge.projects["acme/film"].roles[account]

    def refused() -> bool:
        answer = alice.put(upload, blob.content)
        assert answer.status_code in (200, 403)
        return answer.status_code == 403

    blocking_until(refused, "the right ends")
    assert alice.batch("download", blob.entry).status_code == 404


@pytest.mark.parametrize("answer", [Answer(0), throttled("github", 1_000), throttled("gitlab", 1_000), Answer(502)])
def test_a_forge_that_cannot_be_asked_is_503_with_retry_after(
    alice: Client, forge: StubForge, dialect: Dialect, answer: Answer
) -> None:
    """A forge that cannot be asked is 503 and never 401, because git would forget the credential."""
    forge.instead = answer
    for path, body in (("objects/batch", {"operation": "download", "objects": []}), ("locks", {"path": "a"})):
        refused = alice.speaking(dialect).post(f"/{path}", body)
        assert refused.status_code == 503
        assert 1 <= int(refused.headers["Retry-After"]) <= 300


def test_wrong_tokens_and_accounts_without_a_role_are_refused(
    alice: Client, forge: StubForge, dialect: Dialect
) -> None:
    """An invented token is 401, and the token of an account without a role is 404 like a missing repository."""
    forge.add("stranger", f"stranger-{forge.number}", None)
    stranger = alice.speaking(dialect).showing(basic("x", f"stranger-{forge.number}"))
    assert stranger.batch("download", new_blob().entry).status_code == 404
    assert stranger.lock("a.dat").status_code == 403
    forge.add("narrow", f"narrow-{forge.number}", "write", can_tell_account=False)
    narrow = stranger.showing(basic("x", f"narrow-{forge.number}")).batch("download", new_blob().entry)
    assert narrow.status_code == 401
    assert "read:user" in narrow.json()["message"]
    invented = stranger.showing(basic("x", "invented"))
    assert invented.batch("download", new_blob().entry).status_code == 401
    header = f"{basic('x', f'stranger-{forge.number}')}, {alice.authorization}"
    assert alice.showing(header).batch("upload", new_blob().entry).status_code == 200
