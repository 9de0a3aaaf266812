"""The connections of one facade: so many in all, and so many from one address."""

from collections.abc import Iterable
from typing import Protocol

from services.common.logs import get_logger
from services.facade.addresses import holder_of
from services.facade.forwarded import Networks, is_trusted

_log = get_logger(__name__)


class Evictable(Protocol):
    """A connection that can be ended while no request is on its way."""

    @property
    def is_idle(self) -> bool:
        """Tell whether neither a request is being served nor its body awaited."""

    def evict(self) -> None:
        """End it at once."""


class Connections:
    """Keeps to the limits: at a limit, the newest idle connection makes room for the next one.

    So those who hold many silent connections lose them to each other, and a client keeps the one that it has used for
    long. Where none is idle, the next one is refused. The proxies that are trusted have no limit of their own, because
    they bring the connections of many.
    """

    def __init__(self, limit: int, limit_per_address: int, trusted: Networks = ()) -> None:
        self._limit = limit
        self._limit_per_address = limit_per_address
        self._trusted = trusted
        # In the order in which they came.
        self._all: dict[Evictable, str] = {}
        self._by_holder: dict[str, dict[Evictable, None]] = {}

    def add(self, connection: Evictable, address: str) -> bool:
        """Take a new connection of an address in; return False where it has to be ended."""
        holder = holder_of(address)
        own = self._by_holder.get(holder, {})
        is_limited = not is_trusted(address, self._trusted)
        if is_limited and len(own) >= self._limit_per_address and not self._evict_newest_idle(own):
            return self._refused(address, "too many connections came from one address")
        if len(self._all) >= self._limit and not self._evict_newest_idle(self._all):
            return self._refused(address, "too many connections are open")
        self._all[connection] = holder
        self._by_holder.setdefault(holder, {})[connection] = None
        return True

    def discard(self, connection: Evictable) -> None:
        """Forget a connection that has ended, or was refused."""
        holder = self._all.pop(connection, None)
        if holder is not None:
            own = self._by_holder[holder]
            del own[connection]
            if not own:
                del self._by_holder[holder]

    def _evict_newest_idle(self, connections: Iterable[Evictable]) -> bool:
        newest = next((one for one in reversed(list(connections)) if one.is_idle), None)
        if newest is None:
            return False
        self.discard(newest)
        newest.evict()
        return True

    def _refused(self, address: str, message: str) -> bool:
        _log.warning(message, address=address)
        return False
