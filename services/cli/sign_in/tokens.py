"""Tokens of a server for a person who has signed in: given for an ID token, and given anew before they expire."""

import time
from dataclasses import replace

from services.cli.sign_in import provider as issuers
from services.cli.sign_in.sign_ins import SignIn, SignIns
from services.cli.sign_in.web import WebError

# A push may last longer than the rest of a token's life: its actions end with the token.
_FRESH_SECONDS = 300


def sign_in(server: str, provider: issuers.Provider, tokens: issuers.Tokens) -> SignIn:
    """Return the sign-in with a new token of the server. Raises `WebError`."""
    given = issuers.exchange(server, tokens.id_token)
    return SignIn(
        server=server,
        name=provider.name,
        issuer=provider.issuer,
        client_id=provider.client_id,
        user=str(given.get("user") or "token"),
        token=given["access_token"],
        expires_at=int(time.time()) + given["expires_in"],
        refresh_token=tokens.refresh_token,
        client_secret=provider.client_secret,
    )


def fresh(known: SignIns, found: SignIn) -> SignIn | None:
    """Return a sign-in whose token is valid for some minutes, refreshed if needed; None if a person has to sign in.

    Raises `WebError` if the issuer or the server is away.
    """
    if is_fresh(found):
        return found
    with known.locked():
        current = known.read().get(found.server)
        if current is None or is_fresh(current):
            return current
        return _refreshed(known, current)


def is_fresh(found: SignIn) -> bool:
    """Return whether a token is still valid for some minutes."""
    return bool(found.token) and found.expires_at - time.time() > _FRESH_SECONDS


def forget_token(known: SignIns, found: SignIn, token: str) -> None:
    """Forget a token that the server has refused, so that the next one is fetched anew."""
    with known.locked():
        current = known.read().get(found.server)
        if current is not None and current.token == token:
            known.put(replace(current, token="", expires_at=0))


def _refreshed(known: SignIns, current: SignIn) -> SignIn | None:
    if not current.refresh_token:
        return None
    provider = issuers.describe(current.name, current.issuer, current.client_id, current.client_secret)
    try:
        tokens = issuers.refresh(provider, current.refresh_token)
    except WebError as error:
        if not error.is_refusal:
            raise
        known.put(replace(current, token="", expires_at=0, refresh_token=""))
        return None
    # The issuer may have ended the earlier refresh token already: the new one is kept whatever comes next.
    known.put(replace(current, refresh_token=tokens.refresh_token))
    renewed = sign_in(current.server, provider, tokens)
    known.put(renewed)
    return renewed
