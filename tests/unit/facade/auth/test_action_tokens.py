"""The tokens of actions: good for one thing."""

import time
from collections.abc import Sequence
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from services.common.errors import PermissionDenied
from services.facade.auth.action_tokens import ActionGrant, ActionTokens, ObjectLocation, Operation
from services.facade.web.error_reasons import HttpReason
from tests.support.action_tokens import issue

KEY = "k" * 32
TOKENS = ActionTokens(SecretStr(KEY))
OID = "a" * 64
PERMIT = ActionGrant(Operation.UPLOAD, "demo/assets", 7, OID, 12, "alice")
CLAIMS = {"operation": "upload", "repository": "demo/assets", "repository_id": 7, "oid": OID, "size": 12}


def _later(seconds: int = 60) -> int:
    return int(time.time()) + seconds


def _check(
    *headers: str,
    own: Sequence[str] = (),
    operation: Operation = Operation.UPLOAD,
    name: str = "demo/assets",
    oid: str = OID,
) -> ActionGrant:
    return TOKENS.check(headers, own=own, operation=operation, repository=name, oid=oid)


def _refused(*headers: str, **asked: Any) -> str:  # noqa: ANN401 - those of _check
    with pytest.raises(PermissionDenied) as caught:
        _check(*headers, **asked)
    assert caught.value.reason == HttpReason.TOKEN_REFUSED
    return caught.value.message


def test_a_token_is_taken_from_its_own_header_first() -> None:
    """Authorization is searched, even joined by commas, if the token's own header has no good token (client-9)."""
    good, late = issue(TOKENS, PERMIT, _later()), issue(TOKENS, PERMIT, _later(-1))
    assert _check(own=[good]) == PERMIT
    assert _check("Basic YTpi", own=[late, good]) == PERMIT
    assert _check(f"Basic YTpi, bearer {good}", own=[late]) == PERMIT
    assert _check(own=[f"x, {good}"]) == PERMIT
    assert "expired" in _refused("Basic YTpi", own=[late])


def test_of_many_tokens_a_few_are_looked_at() -> None:
    """Each costs an HMAC, and a head may have thousands."""
    good = f"Bearer {issue(TOKENS, PERMIT, _later())}"
    assert _check(",".join(["Bearer x"] * 7 + [good])) == PERMIT
    assert _refused(",".join(["Bearer x"] * 8 + [good]))


def test_a_token_opens_what_it_was_made_for() -> None:
    """A token works more than once, because a client that retries sends the same token."""
    header = f"Bearer {issue(TOKENS, PERMIT, _later())}"
    assert _check(header) == _check(header) == PERMIT


def test_a_token_opens_nothing_else() -> None:
    """A token opens no other operation, repository or object, so that a leaked token does little harm."""
    header = f"Bearer {issue(TOKENS, PERMIT, _later())}"
    assert "another action" in _refused(header, operation=Operation.DOWNLOAD)
    assert "another action" in _refused(header, operation=Operation.VERIFY)
    assert "another action" in _refused(header, name="demo/other")
    assert "another action" in _refused(header, oid="b" * 64)


def test_an_expired_token_says_so() -> None:
    """The client asks for a new batch."""
    assert "expired" in _refused(f"Bearer {issue(TOKENS, PERMIT, _later(-1))}")


@pytest.mark.parametrize("header", ["", "Bearer", "Bearer x", "Basic YTpi", "Bearer a.b.c", "Bearer " + "x" * 10_000])
def test_what_is_no_token_is_refused(header: str) -> None:
    """With 403, never with an error of the service."""
    assert _refused(header)


def test_no_token_is_refused() -> None:
    """The message says that it is missing."""
    assert "missing" in _refused()


def test_one_good_token_among_several_is_enough() -> None:
    """CI checkouts add an Authorization header of their own (client-9)."""
    good = f"Bearer {issue(TOKENS, PERMIT, _later())}"
    assert _check("Basic YTpi", good) == _check(good, "Bearer x") == PERMIT


def test_another_key_signs_nothing() -> None:
    """A token with another key, the algorithm `none` or a missing claim is refused, because anybody can make it."""
    whole = {**CLAIMS, "user": "alice", "exp": _later()}
    assert _check(f"Bearer {jwt.encode(whole, KEY)}") == PERMIT
    assert _refused(f"Bearer {jwt.encode(whole, 'x' * 32)}")
    assert _refused(f"Bearer {jwt.encode(whole, '', algorithm='none')}")
    assert _refused(f"Bearer {jwt.encode({**CLAIMS, 'user': 'alice'}, KEY)}")
    assert _refused(f"Bearer {jwt.encode({**CLAIMS, 'exp': _later()}, KEY)}")


@given(
    st.sampled_from(Operation),
    st.text(max_size=20),
    st.integers(0, 2**63 - 1),
    st.text("0123456789abcdef", min_size=64, max_size=64),
    st.integers(0, 2**63 - 1),
    st.text(max_size=20),
    st.none()
    | st.builds(
        ObjectLocation,
        st.text("0123456789abcdef", min_size=16, max_size=16),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
    ),
)
def test_they_are_json_web_tokens(
    operation: Operation, name: str, repository_id: int, oid: str, size: int, user: str, place: ObjectLocation | None
) -> None:
    """A library for them reads ours, and ours reads what it makes: to the last bit of the signature."""
    grant = ActionGrant(operation, name, repository_id, oid, size, user, place=place)
    token, expires_at = issue(TOKENS, grant, _later()), _later()
    claims = jwt.decode(token, KEY, algorithms=["HS256"])
    assert claims.pop("exp") in (expires_at - 1, expires_at)
    told = {"place": list(place)} if place else {}
    assert (
        claims == {name: value for name, value in grant._asdict().items() if name not in ("place", "credential")} | told
    )
    theirs = jwt.encode({**grant._asdict(), "exp": expires_at}, KEY, algorithm="HS256")
    assert _check(f"Bearer {theirs}", operation=operation, name=name, oid=oid) == grant


@pytest.mark.parametrize("payload", [b"", b"[]", b"7", b"{", b'{"exp": 4000000000}', b"\xff"])
def test_what_the_key_has_signed_is_still_read_with_care(payload: bytes) -> None:
    """Something else may have been signed with the same key."""
    token = jwt.api_jws.encode(payload, KEY, algorithm="HS256")
    assert "not valid" in _refused(f"Bearer {token}")


def test_a_second_key_is_accepted_and_signs_nothing() -> None:
    """An action that was handed out before the key was changed is good until it ends, and no longer."""
    both = ActionTokens(SecretStr("n" * 32), SecretStr(KEY))

    def check(token: str) -> ActionGrant:
        return both.check([f"Bearer {token}"], operation=Operation.UPLOAD, repository="demo/assets", oid=OID)

    assert check(issue(TOKENS, PERMIT, _later())) == check(issue(both, PERMIT, _later())) == PERMIT
    assert _refused(f"Bearer {issue(both, PERMIT, _later())}")
    for token, problem in [(issue(TOKENS, PERMIT, _later(-1)), "expired"), (jwt.encode({}, "x" * 32), "not valid")]:
        with pytest.raises(PermissionDenied, match=problem):
            check(token)


@given(st.integers(0, 10_000), st.integers(0, 7))
def test_a_flipped_bit_is_refused(position: int, bit: int) -> None:
    """Whichever bit of the signed part it is."""
    signed, _, signature = issue(TOKENS, PERMIT, 4_000_000_000).rpartition(".")
    changed = bytearray(signed.encode())
    changed[position % len(changed)] ^= 1 << bit
    assert _refused(f"Bearer {changed.decode('latin-1')}.{signature}")


def test_the_size_is_that_of_the_token() -> None:
    """An upload cannot say another (trap-5)."""
    assert _check(f"Bearer {issue(TOKENS, PERMIT._replace(size=99), _later())}").size == 99


def test_a_credential_is_readable_by_facades_only() -> None:
    """The credential of an access travels in the token, encrypted; clients, and their logs, cannot read it."""
    token = issue(TOKENS, PERMIT._replace(user_id=1, token_id=2, credential="a secret of the forge"), _later())
    sealed = jwt.decode(token, KEY, algorithms=["HS256"])["credential"]
    assert "secret" not in sealed
    assert _check(own=[token]).credential == "a secret of the forge"
    other = issue(TOKENS, PERMIT._replace(credential="a secret of the forge"), _later())
    assert jwt.decode(other, KEY, algorithms=["HS256"])["credential"] != sealed
    assert "credential" not in jwt.decode(issue(TOKENS, PERMIT, _later()), KEY, algorithms=["HS256"])


def test_a_credential_survives_the_change_of_the_key() -> None:
    """It is encrypted by what signs the token, and read by whatever key has signed that."""
    new = ActionTokens(SecretStr("n" * 32), accepted=SecretStr(KEY))
    permit = PERMIT._replace(credential="a secret of the forge")
    for issuer in (TOKENS, new):
        token = issue(issuer, permit, _later())
        found = new.check([], own=[token], operation=permit.operation, repository=permit.repository, oid=OID)
        assert found.credential == permit.credential


@pytest.mark.parametrize("credential", ["", "x", "a" * 40, 7, ["x"]])
def test_an_odd_credential_is_refused(credential: object) -> None:
    """A signed token with a credential that no facade has encrypted opens nothing, and is no error of the service."""
    token = jwt.encode({**CLAIMS, "user": "alice", "exp": _later(), "credential": credential}, KEY)
    if credential:
        assert _refused(f"Bearer {token}")
    else:
        assert _check(f"Bearer {token}") == PERMIT
