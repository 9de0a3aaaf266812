"""Configured limits, enforced before the work is done, on a stack with small ones (docs/protocol.md, "Limits")."""

from typing import Any

import httpx
import pytest

from services.conformance.blobs import Blob, new_blob
from services.conformance.dialects import DIALECTS, GENERIC, Dialect
from tests.protocol import raw
from tests.protocol.administration import Administration
from tests.protocol.answers import check
from tests.protocol.client import Client, basic
from tests.protocol.conftest import PUBLIC_URL
from tests.support.stack import Stack


@pytest.fixture
def alice(small_alice: Client) -> Client:
    """Alice on the stack with small limits."""
    return small_alice


def test_the_default_batch_has_1000_objects(stack: Stack, http: httpx.Client) -> None:
    """A bounded batch cannot become an unbounded number of requests to the bucket (trap-10)."""
    alice = Client(http, stack.base_url, f"Bearer {stack.tokens['alice']}")
    entries = [new_blob().entry for _ in range(1000)]
    answer = alice.batch("upload", *entries)
    assert answer.status_code == 200
    assert len(answer.json()["objects"]) == 1000
    assert alice.batch("upload", *entries, new_blob().entry).status_code == 413
    assert alice.batch("download", *[entries[0]] * 10_001).status_code == 413


def test_more_objects_than_the_limit_are_413(alice: Client, dialect: Dialect) -> None:
    """A user whose batch is over the limit learns the limit and the setting that helps (docs/protocol.md, "Limits")."""
    alice = alice.speaking(dialect)
    entries = [new_blob().entry for _ in range(11)]
    for operation in ("download", "upload"):
        assert alice.batch(operation, *entries[:10]).status_code == 200
        refused = alice.batch(operation, *entries)
        assert refused.status_code == 413
        assert "expected at most 10;" in refused.json()["message"]
        assert "lfs.transfer.batchSize to 10 " in refused.json()["message"], "what a person can do"


@pytest.mark.parametrize("path", ["/objects/batch", "/locks", "/locks/verify", "/locks/1/unlock"])
def test_a_body_over_the_limit_is_413(alice: Client, dialect: Dialect, path: str) -> None:
    """A body over the limit is refused, with a length or in chunks, so that it cannot fill the memory."""
    alice = alice.speaking(dialect)
    assert alice.post(path, b" " * 4096).status_code == 400
    assert alice.post(path, b" " * 4097).status_code == 413
    chunked = alice.send(
        "POST", alice.base_url + path, headers=alice.headers(body=True), content=iter([b" " * 4000, b" " * 97])
    )
    assert chunked.status_code == 413


def test_a_body_over_the_limit_is_refused_by_its_length_alone(alice: Client, small: Stack) -> None:
    """A body over the limit must cost no work, so the refusal is sent while the body is drained."""
    with raw.Connection(small.origin) as connection:
        headers = [*alice.headers(body=True), ("Content-Length", str(2**40))]
        connection.begin("POST", "/demo/assets/objects/batch", headers)
        assert check(connection.answer(), GENERIC).status_code == 413
    with raw.Connection(small.origin) as connection:
        headers = [*alice.headers(body=True), ("Content-Length", str(2**22))]
        connection.begin("POST", "/demo/assets/objects/batch", headers)
        connection.send(bytes(2**22))
        assert check(connection.answer(), GENERIC).status_code == 413


def test_an_object_over_the_limit_is_422_for_that_object(alice: Client) -> None:
    """An object over the limit must not fail the other entries (protocol: Per-object error codes, 422)."""
    fits, large = new_blob(), {"oid": "0" * 64, "size": 100_001}
    answer = alice.batch("upload", fits.entry, large, {**large, "size": 100_000})
    assert answer.status_code == 200
    entries = answer.json()["objects"]
    assert entries[1]["error"]["code"] == 422
    assert "actions" not in entries[1]
    assert "actions" in entries[0]
    assert "actions" in entries[2]
    assert alice.batch("upload", large).status_code == 422
    assert alice.batch("download", large).json()["objects"][0]["error"]["code"] == 404


def test_the_page_of_locks_has_bounds(alice: Client) -> None:
    """A client may ask for any number, so the server coerces it to its bounds (protocol: Limits, locks list limit)."""
    locks = [alice.lock(f"page/{number}").json()["lock"] for number in range(5)]
    for limit, count in ((None, 2), (0, 2), (-1, 2), (1, 1), (3, 3), (4, 3), (10**9, 3)):
        values: dict[str, Any] = {} if limit is None else {"limit": limit}
        listed, verified = alice.locks(**values).json(), alice.verify_locks(**values).json()
        assert listed["locks"] == verified["ours"] == locks[:count]
        assert listed["next_cursor"]
        assert verified["next_cursor"]
    for lock in locks:
        assert alice.unlock(lock["id"]).status_code == 200


def test_more_locks_than_a_user_may_hold_are_403(alice: Client, dialect: Dialect) -> None:
    """Every push reads all locks, so one writer must not make them without end, and the refusal says what to do."""
    alice = alice.speaking(dialect)
    locks = [alice.lock(f"many/{number}").json()["lock"] for number in range(7)]
    answer = check(alice.lock("many/more"), dialect)
    assert answer.status_code == 403
    assert "7 locks" in answer.json()["message"]
    assert "locks_per_user" in answer.json()["message"]
    assert alice.lock("many/0").status_code == 409
    assert alice.unlock(locks.pop()["id"]).status_code == 200
    locks.append(alice.lock("many/more").json()["lock"])
    for lock in locks:
        assert alice.unlock(lock["id"]).status_code == 200


def test_a_path_has_a_longest_length_in_bytes(alice: Client) -> None:
    """A path is stored and listed with its lock, so its length is limited."""
    for path in ("x" * 100, "é" * 50):
        assert alice.unlock(alice.lock(path).json()["lock"]["id"]).status_code == 200
    for path in ("x" * 101, "é" * 50 + "x"):
        assert alice.lock(path).status_code == 422


def test_actions_live_as_long_as_is_set(alice: Client) -> None:
    """The client drops an action that expires within seconds, so an action lives at least 60 s (client-23)."""
    actions = alice.entry("upload", new_blob())["actions"]
    assert actions["upload"]["expires_in"] == 60
    assert actions["verify"]["expires_in"] >= 60


def test_errors_name_the_documentation_that_is_set(alice: Client, dialect: Dialect) -> None:
    """Users find help at the address that the operator configured (protocol: Error body, documentation_url)."""
    for answer in (alice.speaking(dialect).unlock("0"), alice.speaking(dialect).lock("")):
        assert answer.json()["documentation_url"] == "https://goods.example.org/help"


def test_the_challenge_names_the_realm_that_is_set(alice: Client, dialect: Dialect) -> None:
    """A challenge names its scheme and realm, so that a client knows which credentials to send."""
    answer = alice.showing(None).speaking(dialect).locks()
    assert answer.headers["blob-authenticate"] == 'Basic realm="Goods of all kinds"'
    assert answer.headers["lfs-authenticate"] == 'Basic realm="Goods of all kinds"'


def test_hrefs_begin_with_the_public_address(alice: Client) -> None:
    """An href with the scheme or host behind the proxy leads clients to an address they cannot reach (trap-33)."""
    blob = new_blob()
    actions = alice.entry("upload", blob)["actions"]
    assert {action["href"] for action in actions.values()} == {f"{PUBLIC_URL}/demo/assets/objects/{blob.oid}"}
    assert alice.put(actions["upload"], blob.content).status_code == 200
    assert alice.verify(actions["verify"], blob.entry).status_code == 200
    assert Blob(alice.get(alice.action("download", blob)).content).oid == blob.oid


def test_a_verify_body_over_the_limit_is_413(alice: Client) -> None:
    """A verify body is read as a whole, so its bytes are limited (413)."""
    assert alice.verify(alice.action("verify", new_blob()), b" " * 4097).status_code == 413


def test_repeated_bad_credentials_are_slowed_and_good_ones_never(alice: Client, dialect: Dialect) -> None:
    """Bad credentials, which git-lfs repeats without end, are slowed, and two in one request count once (client-6)."""
    address = f"198.51.100.{DIALECTS.index(dialect)}"

    def ask(authorization: str | None) -> httpx.Response:
        client = alice.speaking(dialect).showing(authorization)
        headers = [*client.headers(body=False), ("X-Forwarded-For", address)]
        return client.send("GET", f"{client.base_url}/locks", headers=headers)

    assert [ask(None).status_code for _ in range(5)] == [401] * 5, "no credentials are no bad ones"
    answers = [ask(shown) for shown in ("Bearer x", "Basic !", basic("tp_x", "tp_y"), "Bearer z", "Bearer z")]
    assert [answer.status_code for answer in answers] == [401, 401, 401, 429, 429]
    assert 1 <= int(answers[-1].headers["retry-after"]) <= 1200
    assert not [name for name in answers[-1].headers if name.endswith("-authenticate")]
    assert ask(alice.authorization).status_code == 200


def test_a_user_over_the_rate_gets_429_and_may_still_lock(small: Stack, alice: Client, dialect: Dialect) -> None:
    """A user whose builds have used up the rate may still lock and transfer (docs/protocol.md, "Rates of requests")."""
    name, blob = f"limited-{dialect.name}", new_blob()
    with Administration(small) as operator:
        token = operator.add_user(name)
        operator.grant(name, "demo/assets", "write")
        operator.limit_requests(name, per_hour=10)
    limited = alice.showing(f"Bearer {token}").speaking(dialect)
    upload = limited.action("upload", blob)
    answers = [limited.batch("upload", blob.entry) for _ in range(10)]
    assert [answer.status_code for answer in answers] == [200] * 9 + [429]
    for refused in (answers[-1], limited.locks()):
        assert refused.status_code == 429
        assert refused.headers["Retry-After"] == "300"
        assert refused.json()["message"] == "too many requests: your user may make 10/h; try again in 300 s"
    created = limited.lock(f"rates/{name}")
    assert created.status_code == 201
    assert limited.verify_locks().status_code == 200
    assert limited.unlock(created.json()["lock"]["id"]).status_code == 200
    assert limited.put(upload, blob.content).status_code == 200
