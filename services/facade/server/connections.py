"""The connections of one facade: so many in all, and so many from one address."""

from collections.abc import Iterable
from typing import Protocol

from services.common.observability.logs import get_logger
from services.facade.web.addresses import limit_key
from services.facade.web.forwarded_headers import Networks, is_trusted

_log = get_logger(__name__)


class Evictable(Protocol):
    """A connection that can be ended while no request is on its way."""

    @property
    def is_idle(self) -> bool:
        """Tell whether neither a request is being served nor its body awaited."""

    @property
    def has_asked(self) -> bool:
        """Tell whether a request has come on it."""

    def evict(self) -> None:
        """End it at once."""


class Connections:
    """Keeps to the limits: at a limit, an idle connection makes room for the next one.

    That is the oldest on which no request has come, because a client that opens one sends its request at once; where
    there is none, the one whose last request is longest ago. Where none is idle, the next one is refused. The proxies
    that are trusted have no limit of their own, because they bring the connections of many.
    """

    def __init__(self, limit: int, limit_per_address: int, trusted: Networks = ()) -> None:
        self._limit = limit
        self._limit_per_address = limit_per_address
        self._trusted = trusted
        # In the order in which they came, or in which their last requests ended.
        self._all: dict[Evictable, str] = {}
        self._by_holder: dict[str, dict[Evictable, None]] = {}

    def add(self, connection: Evictable, address: str) -> bool:
        """Take a new connection of an address in; return False where it has to be ended."""
        holder = limit_key(address)
        own = self._by_holder.get(holder, {})
        is_limited = not is_trusted(address, self._trusted)
        if is_limited and len(own) >= self._limit_per_address and not self._evict_idle(own):
            return self._refused(address, "too many connections came from one address")
        if len(self._all) >= self._limit and not self._evict_idle(self._all):
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

    def request_ended(self, connection: Evictable) -> None:
        """Note that a connection has just been used."""
        if (holder := self._all.pop(connection, None)) is not None:
            self._all[connection] = holder
            own = self._by_holder[holder]
            own[connection] = own.pop(connection)

    def _evict_idle(self, connections: Iterable[Evictable]) -> bool:
        found = None
        for one in connections:
            if one.is_idle:
                if not one.has_asked:
                    found = one
                    break
                found = found or one
        if found is None:
            return False
        self.discard(found)
        found.evict()
        return True

    def _refused(self, address: str, message: str) -> bool:
        _log.warning(message, address=address)
        return False
