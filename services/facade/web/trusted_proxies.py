"""The trusted proxies: addresses, networks, and host names whose addresses may change."""

import asyncio
import ipaddress
import re
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from services.common.concurrency.periodic import run_periodically
from services.common.lifecycle import running
from services.common.observability.logs import get_logger
from services.facade.web.forwarded_headers import Network

_INTERVAL_SECONDS = 2.0
_FIRST_SECONDS = 3.0

# The last label of a host name is not a number: an entry that ends in a number is a mistyped address.
_NAME = re.compile(r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)(\.(?!-)[A-Za-z0-9_-]{1,63}(?<!-))*", re.ASCII)
_NUMBER = re.compile(r"[0-9]+", re.ASCII)

_log = get_logger(__name__)


class TrustedProxies:
    """The networks of a comma-separated list of addresses, CIDRs and host names; a name has none until it is resolved.

    Raises ValueError for an entry of any other form.
    """

    def __init__(self, text: str = "") -> None:
        self._fixed: list[Network] = []
        self.names: list[str] = []
        self._resolved: dict[str, list[Network]] = {}
        for entry in filter(None, (part.strip() for part in text.split(","))):
            try:
                self._fixed.append(ipaddress.ip_network(entry))
            except ValueError:
                if not _is_name(entry):
                    raise
                self.names.append(entry)

    def __iter__(self) -> Iterator[Network]:
        """Yield each network that is trusted at the moment."""
        yield from self._fixed
        for networks in self._resolved.values():
            yield from networks

    async def resolve(self) -> None:
        """Find the addresses of all names; a name that does not resolve has no networks."""
        for name in self.names:
            found = await _addresses_of(name)
            if found != self._resolved.get(name, []):
                _log.info(
                    "a proxy is trusted", name=name, addresses=[str(network.network_address) for network in found]
                )
            self._resolved[name] = found


@asynccontextmanager
async def resolved_proxies(text: str | None) -> AsyncIterator[TrustedProxies]:
    """Yield the proxies of a list, and follow the addresses of their names until the block ends."""
    proxies = TrustedProxies(text or "")
    if not proxies.names:
        yield proxies
        return
    async with running(proxies.resolve()) as first:
        # Resolve the names before the first request, but let a slow name server delay the start for 3 s at most.
        await asyncio.wait({first}, timeout=_FIRST_SECONDS)
        trouble = "the names of proxies are not resolved"
        async with running(run_periodically(proxies.resolve, _INTERVAL_SECONDS, trouble=trouble)):
            yield proxies


async def _addresses_of(name: str) -> list[Network]:
    try:
        # The loop's getaddrinfo runs in a thread, so it does not block other requests.
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    # The name of the interface follows a link-local address, after a "%".
    addresses = sorted({str(address[0]).partition("%")[0] for *_, address in found})
    return [ipaddress.ip_network(address) for address in addresses]


def _is_name(text: str) -> bool:
    return len(text) <= 253 and _NAME.fullmatch(text) is not None and not _NUMBER.fullmatch(text.rpartition(".")[2])
