"""Connection limits, from the settings and from the number of files that the system allows."""

import resource
from dataclasses import dataclass

from services.facade.server.connections import Connections
from services.facade.settings import FacadeSettings
from services.facade.web.forwarded_headers import Networks

# A download has a file open beside its connection.
_FILES_EACH = 2
# Channels to the other services, the listening socket, logs, metrics.
_OTHER_FILES = 100


@dataclass(frozen=True)
class ConnectionLimits:
    """The limits of connections.

    `head_seconds` is the time until a request's head must be complete; `idle_seconds` is the time for which a client
    may read nothing of an answer.
    """

    connections: Connections
    head_seconds: float
    idle_seconds: float


def connection_limits(settings: FacadeSettings, trusted: Networks) -> ConnectionLimits:
    """Return the limits, with no more connections than the process may open files for."""
    max_files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    possible = max(1, (max_files - _OTHER_FILES) // _FILES_EACH)
    limit = min(settings.connections, possible)
    connections = Connections(limit, settings.connections_per_address, trusted)
    return ConnectionLimits(connections, settings.head_seconds, settings.body_idle_seconds)
