"""The connections of one facade, limited in total and for each address."""

import resource
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from services.common.client_addresses import limit_key
from services.common.observability.logs import get_logger
from services.facade.web.forwarded_headers import Networks, is_trusted
from services.facade.web.http_settings import HttpSettings

# A download has a file open beside its connection.
_FILES_EACH = 2
# Channels to the other services, the listening socket, logs, metrics.
_OTHER_FILES = 100

_log = get_logger(__name__)


class Evictable(Protocol):
    """A connection that can be evicted while it is idle."""

    @property
    def is_idle(self) -> bool:
        """True while no request is being served and no body is awaited."""

    @property
    def has_asked(self) -> bool:
        """True once a request has arrived on the connection."""

    def evict(self) -> None:
        """End the connection at once."""


class Connections:
    """Enforces the limits: at a limit, an idle connection is evicted in favour of a new connection.

    The victim is the oldest connection on which no request has arrived, because a client sends its request as soon as
    it has connected; otherwise, the connection whose last request ended longest ago. If no connection is idle, the new
    connection is refused. Trusted proxies have no limit per address, because they forward the requests of many clients.
    """

    def __init__(self, limit: int, limit_per_address: int, trusted: Networks = ()) -> None:
        self._limit = limit
        self._limit_per_address = limit_per_address
        self._trusted = trusted
        # In the order of arrival, or of the end of the last request.
        self._all: dict[Evictable, str] = {}
        self._by_holder: dict[str, dict[Evictable, None]] = {}

    def add(self, connection: Evictable, address: str) -> bool:
        """Add a new connection of an address; return False where the caller has to end the connection."""
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
        """Remove a connection that has ended, or was refused."""
        holder = self._all.pop(connection, None)
        if holder is not None:
            own = self._by_holder[holder]
            del own[connection]
            if not own:
                del self._by_holder[holder]

    def request_ended(self, connection: Evictable) -> None:
        """Move a connection to the end of the eviction order, because it has just been used."""
        if (holder := self._all.pop(connection, None)) is not None:
            self._all[connection] = holder
            own = self._by_holder[holder]
            own[connection] = own.pop(connection)

    def _evict_idle(self, connections: Iterable[Evictable]) -> bool:
        found = None
        for connection in connections:
            if connection.is_idle:
                if not connection.has_asked:
                    found = connection
                    break
                found = found or connection
        if found is None:
            return False
        self.discard(found)
        found.evict()
        return True

    def _refused(self, address: str, message: str) -> bool:
        _log.warning(message, address=address)
        return False


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of connections.

    `head_seconds` is the time until a request's head must be complete, of at most `head_bytes` and `head_fields`;
    `idle_seconds` is the time for which a client may read nothing of an answer.
    """

    connections: Connections
    head_seconds: float
    head_bytes: int
    head_fields: int
    idle_seconds: float


def connection_limits(settings: HttpSettings, trusted: Networks) -> ConnectionLimits:
    """Return the limits, with no more connections than the process may open files for."""
    max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, (max_files - _OTHER_FILES) // _FILES_EACH)
    limit = min(settings.connections, possible)
    connections = Connections(limit, settings.connections_per_address, trusted)
    return ConnectionLimits(
        connections,
        head_seconds=settings.head_seconds,
        head_bytes=settings.head_bytes,
        head_fields=settings.head_fields,
        idle_seconds=settings.body_idle_seconds,
    )
