"""The limits of repositories and users: those of the database, cached for some seconds, over the defaults."""

import asyncio
import time
from typing import Never

from services.common.concurrency.periodic import run_periodically
from services.database.transactions import Database
from services.storage.index.limits import AllLimits, Limits, all_limits

REFRESH_SECONDS = 2.0
# The loading of very many limits is repeated less often.
_MAX_SHARE_OF_TIME = 0.05


class LimitCache:
    """The limits of all repositories and users, as they were up to `REFRESH_SECONDS` ago. Its owner runs `run`."""

    def __init__(self, database: Database, *, quota: int, user_quota: int, bandwidth: int) -> None:
        """`quota`, `user_quota` and `bandwidth` are the defaults in bytes; 0 for no limit."""
        self._database = database
        self._defaults = Limits(quota, bandwidth)
        self._user_default = user_quota
        self._known = AllLimits({}, {})
        self._are_known = asyncio.Event()
        self._refreshing = asyncio.Lock()
        self._has_quotas = quota > 0
        self._has_bandwidths = bandwidth > 0

    @property
    def default_quota(self) -> int:
        """The quota in bytes of repositories without one of their own; 0 for none."""
        return self._defaults.quota or 0

    @property
    def has_quotas(self) -> bool:
        """True if any repository has a quota."""
        return self._has_quotas

    @property
    def has_bandwidths(self) -> bool:
        """True if any repository has a daily limit of bandwidth."""
        return self._has_bandwidths

    def quota_of(self, repository_id: int) -> int | None:
        """Return the bytes that a repository may hold; None for any number."""
        return _first(self._own(repository_id).quota, self._defaults.quota)

    def user_quota_of(self, user_id: int | None) -> int | None:
        """Return the bytes that a user may bring; None for any number, and for a user who is not known."""
        return None if user_id is None else _first(self._known.users.get(user_id), self._user_default)

    def bandwidth_of(self, repository_id: int) -> int | None:
        """Return the bytes that a repository may move in a day; None for any number."""
        return _first(self._own(repository_id).bandwidth, self._defaults.bandwidth)

    async def known(self) -> None:
        """Return once the limits are known."""
        await self._are_known.wait()

    async def refresh(self) -> float:
        """Load the limits, and return the number of seconds after which to load them again. Raises `Unavailable`."""
        began = time.monotonic()
        # One at a time, so that an answer from before a change does not replace one from after it.
        async with self._refreshing:
            self._known = await self._database.run(all_limits)
        limits = (self._defaults, *self._known.repositories.values())
        self._has_quotas = any(own.quota for own in limits)
        self._has_bandwidths = any(own.bandwidth for own in limits)
        self._are_known.set()
        return max(REFRESH_SECONDS, (time.monotonic() - began) / _MAX_SHARE_OF_TIME)

    async def run(self) -> Never:
        """Refresh the limits, forever; while the database is away, the last ones stay."""
        await run_periodically(self.refresh, REFRESH_SECONDS, trouble="limits are not refreshed")

    def _own(self, repository_id: int) -> Limits:
        return self._known.repositories.get(repository_id, _NO_OWN)


_NO_OWN = Limits()


def _first(own: int | None, default: int | None) -> int | None:
    return (default if own is None else own) or None
