"""Redemption of authorization codes at the token endpoint of an issuer (RFC 6749, 4.1.3), bounded in bytes and time."""

import asyncio
import re
from collections.abc import Mapping

import httpx

from services.common.errors import FailedPrecondition, Reason, ServiceError, Unavailable
from services.common.observability.logs import get_logger
from services.locks.access.third_parties import AddressSlots, Asker
from services.locks.issuers.discovery import ANSWER_SECONDS, Discovery, json_of
from services.locks.issuers.refusal import refused

# Strangers can have codes redeemed that they have made up.
_MAX_CONCURRENCY = 16
_MAX_OF_ADDRESS = 2
_RETRY_SECONDS = "10"
_REFUSALS = frozenset({httpx.codes.BAD_REQUEST, httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN})
_ERROR = re.compile(r"[a-z_]{1,64}", re.ASCII)

_log = get_logger(__name__)


class Redemption:
    """Redeems codes, a bounded number at a time, of which an eighth may be from one address."""

    def __init__(self, discovery: Discovery) -> None:
        self._discovery = discovery
        self._slots = asyncio.Semaphore(_MAX_CONCURRENCY)
        self._own_slots = AddressSlots(_MAX_OF_ADDRESS)

    async def redeem(self, url: str, fields: Mapping[str, str], asker: Asker) -> str:
        """Return the ID token for the code in `fields`, which go to the token endpoint.

        Raises `Unauthenticated` (BAD_CREDENTIALS) for a code that is refused, `FailedPrecondition`
        (SIGN_IN_UNSUPPORTED) if the client is refused or there is no ID token, and `Unavailable`, with `undecided`, if
        the issuer does not answer within five seconds.
        """
        form = {"grant_type": "authorization_code", **fields}
        try:
            async with (
                asyncio.timeout(ANSWER_SECONDS),
                self._own_slots.of(asker),
                self._slots,
                await self._discovery.client() as client,
                client.stream("POST", url, data=form, headers={"Accept": "application/json"}) as response,
            ):
                if response.status_code != httpx.codes.OK and response.status_code not in _REFUSALS:
                    raise _unavailable(url, f"it answered {response.status_code}")
                found = await json_of(response)
        except (TimeoutError, httpx.HTTPError, httpx.InvalidURL, OSError, ValueError) as error:
            raise _unavailable(url, f"{type(error).__name__}: {error}") from error
        answer = found if isinstance(found, dict) else {}
        if response.status_code != httpx.codes.OK:
            raise _refusal(answer.get("error"))
        token = answer.get("id_token")
        if not isinstance(token, str):
            raise FailedPrecondition(Reason.SIGN_IN_UNSUPPORTED, "the issuer gives no ID token for the code")
        return token


def _refusal(named: object) -> ServiceError:
    """Return the error for the one that a token endpoint names."""
    error = named if isinstance(named, str) and _ERROR.fullmatch(named) else "an unknown error"
    if error == "invalid_grant":
        return refused("code: the issuer refuses the code of this sign-in; sign in again")
    return FailedPrecondition(Reason.SIGN_IN_UNSUPPORTED, f"the issuer refuses the client: {error}; is it public?")


def _unavailable(url: str, problem: str) -> Unavailable:
    _log.warning("a code cannot be redeemed", url=url.partition("?")[0], problem=problem)
    message = "the issuer does not answer at its token endpoint; sign in again in a moment"
    return Unavailable(Reason.UNAVAILABLE, message, retry_after=_RETRY_SECONDS, undecided="true")
