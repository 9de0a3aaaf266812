"""The gate for credentials that are not known: it counts bad ones by address, and slows addresses over their limit."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from services.common.errors import Reason, ResourceExhausted, ServiceError, Unauthenticated, Unavailable
from services.facade.auth.login_queue import LoginQueue, logins_limited
from services.facade.auth.login_throttle import LoginRateLimiter

Aside = Callable[[], AbstractAsyncContextManager[None]]
"""The block in which a request waits for a turn, and leaves its place to others."""

# The metadata of a credential that was valid once or that a forge or an issuer knows, which only its owner can present,
# and of a JSON Web Token whose refusal says nothing but what it says itself: the reason may be learned.
_TOLD = ("expired", "revoked", "lacks", "refused")
_FREE = "free"


def is_told(error: ServiceError) -> bool:
    """Return whether whoever shows the credential may learn why it is refused."""
    return not error.metadata.keys().isdisjoint(_TOLD)


def is_undecided(error: ServiceError) -> bool:
    """Return whether nobody could be asked about a credential that may be a made-up one."""
    return "undecided" in error.metadata


class LoginGate:
    """Counts the bad credentials of addresses, and has addresses over their limit wait for turns."""

    def __init__(self, limiter: LoginRateLimiter, queue: LoginQueue) -> None:
        self._limiter = limiter
        self._queue = queue

    def is_limited(self, address: str) -> bool:
        """Return whether an address is over its limit."""
        return self._limiter.is_limited(address)

    @asynccontextmanager
    async def turn(self, address: str, aside: Aside) -> AsyncIterator[None]:
        """Wait for a turn in the login queue, within `aside`, if an address is over its limit.

        Raises `ResourceExhausted` (LOGINS_LIMITED) where there is none.
        """
        if not self.is_limited(address):
            yield
            return
        async with aside(), self._queue.turn(address):
            yield

    def count(self, address: str) -> ResourceExhausted | None:
        """Count a bad credential, and return an error (LOGINS_LIMITED) where the address is over its limit."""
        if seconds := self._limiter.add_failure(address):
            return logins_limited("too many bad credentials came from your address", seconds)
        return None

    def bad_credentials(self, address: str, reason: str) -> ServiceError:
        """Count a bad credential, and return the error for it: that of `count`, or `Unauthenticated`."""
        refusal = Unauthenticated(Reason.BAD_CREDENTIALS, reason or "the credentials are not valid")
        return self.count(address) or refusal

    def undecided(self, address: str, error: Unavailable | ResourceExhausted) -> ServiceError:
        """Count a credential about which nobody could be asked as a bad one, and return the error for it.

        It is free where the share of the address is used up, by good ones perhaps. The error is that of `count`, or the
        given one, which is LOGINS_LIMITED too if the client asks for too much: `locks/verify` has another status for
        it, because git-lfs takes 429 for a reason to check no locks.
        """
        if error.metadata["undecided"] != _FREE and (limited := self.count(address)):
            return limited
        if isinstance(error, Unavailable):
            return error
        return logins_limited(error.message, int(error.metadata["retry_after"]))
