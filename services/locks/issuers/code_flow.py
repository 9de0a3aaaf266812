"""Sign-in in a browser, by authorization code with PKCE (RFC 7636, RFC 9700, OpenID Connect Core 3.1)."""

import hashlib
import re
import secrets
from functools import partial
from typing import NamedTuple
from urllib.parse import urlencode, urlsplit

from services.common.errors import FailedPrecondition, InvalidArgument, Reason
from services.database.transactions import Database
from services.locks.access.failed_logins import take_share
from services.locks.access.third_parties import NOBODY, Asker, check_may_ask
from services.locks.issuers.discovery import Endpoints, is_visible
from services.locks.issuers.json_web_tokens import is_json_web_token, parse
from services.locks.issuers.key_sets import KeySets
from services.locks.issuers.redemption import Redemption
from services.locks.issuers.refusal import refused
from services.locks.issuers.sign_in import ExchangedToken, SignIn
from services.locks.issuers.table import find_for_sign_in
from services.locks.models import Issuer
from services.locks.validation import check_name

_SCOPES = ("profile", "email", "groups")
# Longer than a browser keeps a sign-in that is under way.
_ONCE_SECONDS = 3_600.0
_MAX_URL_CHARACTERS = 2_000
_DIGEST_CHARACTERS = 40
_SECRET = re.compile(r"[A-Za-z0-9._~-]{16,512}", re.ASCII)
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII)
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}", re.ASCII)
_CODE = re.compile(r"[\x21-\x7e]{1,4096}", re.ASCII)


class Started(NamedTuple):
    """The beginning of a sign-in; the browser keeps the state, the nonce and the verifier of the challenge."""

    redirect_uri: str
    state: str
    nonce: str
    code_challenge: str


class Returned(NamedTuple):
    """The code with which the issuer has sent the browser back, its parameter `iss`, and what the browser has kept."""

    redirect_uri: str
    code: str
    code_verifier: str
    nonce: str
    issuer_url: str


class CodeFlow:
    """Lets people sign in at issuers as public clients: who has a secret there keeps it from nobody."""

    def __init__(self, database: Database, sign_in: SignIn, keys: KeySets, redemption: Redemption) -> None:
        self._database = database
        self._sign_in = sign_in
        self._keys = keys
        self._redemption = redemption

    async def start(self, name: str, started: Started) -> str:
        """Return the URL at which a person signs in.

        Raises `NotFound` (ISSUER_NOT_FOUND), `FailedPrecondition` (SIGN_IN_UNSUPPORTED) if the issuer has no endpoints
        for this, `Unavailable` if it does not answer, and `InvalidArgument`.
        """
        _check_redirect(started.redirect_uri)
        for field in ("state", "nonce"):
            _check(field, getattr(started, field), _SECRET, "16 to 512 of A-Z a-z 0-9 . _ ~ -")
        _check("code_challenge", started.code_challenge, _CHALLENGE, "43 characters of base64url")
        issuer, endpoints = await self._find(name)
        scopes = [scope for scope in _SCOPES if scope in endpoints.scopes]
        parameters = {
            "response_type": "code",
            "client_id": issuer.client_id,
            "redirect_uri": started.redirect_uri,
            "scope": " ".join(("openid", *scopes)),
            "state": started.state,
            "nonce": started.nonce,
            "code_challenge": started.code_challenge,
            "code_challenge_method": "S256",
        }
        url = endpoints.authorization
        return f"{url}{'&' if '?' in url else '?'}{urlencode(parameters)}"

    async def finish(self, name: str, returned: Returned, asker: Asker) -> ExchangedToken:
        """Return a token of ours for a code, the first one of this sign-in.

        Raises the errors of `start`, of `check_may_ask`, of `Redemption.redeem` and of `SignIn.exchange`, and
        `Unauthenticated` if the sign-in has had its code, if the answer is that of another issuer, or if the ID token
        is that of another client or sign-in.
        """
        _check_redirect(returned.redirect_uri)
        _check("nonce", returned.nonce, _SECRET, "16 to 512 of A-Z a-z 0-9 . _ ~ -")
        _check("code_verifier", returned.code_verifier, _VERIFIER, "43 to 128 of A-Z a-z 0-9 . _ ~ -")
        _check("code", returned.code, _CODE, "1 to 4096 printable characters")
        check_may_ask(asker)
        issuer, endpoints = await self._find(name)
        # Another issuer may have sent the browser here, to be told the code of this one.
        if returned.issuer_url != issuer.url and (returned.issuer_url or endpoints.names_itself):
            raise refused("iss: another issuer has answered; sign in again")
        # Made-up codes would reach the issuer as often as somebody likes; the code of the issuer comes once.
        pending = f"sign-in {hashlib.sha256(returned.nonce.encode()).hexdigest()[:_DIGEST_CHARACTERS]}"
        if await self._database.run(partial(take_share, holder=pending, interval=_ONCE_SECONDS)):
            raise refused("code: this sign-in has had its code; sign in again")
        fields = {
            "client_id": issuer.client_id,
            "code": returned.code,
            "redirect_uri": returned.redirect_uri,
            "code_verifier": returned.code_verifier,
            **({"client_secret": issuer.client_secret} if issuer.client_secret else {}),
        }
        token = await self._redemption.redeem(endpoints.token, fields, asker)
        _check_id_token(token, issuer, nonce=returned.nonce)
        # The issuer has just given it: its key is not one that somebody has made up.
        return await self._sign_in.exchange(token, NOBODY)

    async def _find(self, name: str) -> tuple[Issuer, Endpoints]:
        check_name("issuer", name)
        issuer = await self._database.run(partial(find_for_sign_in, name=name))
        endpoints = await self._keys.endpoints(issuer.url)
        for endpoint, url in (("authorization_endpoint", endpoints.authorization), ("token_endpoint", endpoints.token)):
            if not url:
                message = f"the issuer {name} has no {endpoint} that may be used: nobody can sign in with a browser"
                raise FailedPrecondition(Reason.SIGN_IN_UNSUPPORTED, message)
        return issuer, endpoints


def _check_id_token(token: str, issuer: Issuer, *, nonce: str) -> None:
    """Raise `Unauthenticated` unless the claims are those of this sign-in. `SignIn.exchange` verifies all others."""
    if not is_json_web_token(token):
        raise refused("id_token: the issuer gives no JSON Web Token")
    unverified = parse(token)
    if unverified.text("iss") != issuer.url:
        raise refused("iss: the ID token is that of another issuer")
    audience = unverified.claims.get("aud")
    if issuer.client_id not in (audience if isinstance(audience, list) else [audience]):
        raise refused("aud: the ID token is for another client")
    if unverified.claims.get("azp", issuer.client_id) != issuer.client_id:
        raise refused("azp: the ID token is for another client")
    if not secrets.compare_digest(unverified.text("nonce").encode(), nonce.encode()):
        raise refused("nonce: the ID token is that of another sign-in; sign in again")


def _check(field: str, value: str, form: re.Pattern[str], expected: str) -> None:
    if form.fullmatch(value) is None:
        raise InvalidArgument(Reason.INVALID_FIELD, f"{field}: expected {expected}")


def _check_redirect(uri: str) -> None:
    """Raise `InvalidArgument` unless an address can be one to which an issuer sends a browser."""
    try:
        parts = urlsplit(uri)
        is_address = parts.scheme in ("http", "https") and parts.hostname is not None and parts.username is None
    except ValueError:
        is_address = False
    if not is_address or not is_visible(uri) or "#" in uri or len(uri) > _MAX_URL_CHARACTERS:
        expected = f"http(s)://HOST/..., at most {_MAX_URL_CHARACTERS} characters, without credentials and a fragment"
        raise InvalidArgument(Reason.INVALID_FIELD, f"redirect_uri: expected {expected}")
