"""Client addresses, and the keys by which limits count them."""

import ipaddress
from functools import lru_cache

OVERFLOW_KEY = "others"

# A client with one IPv6 address has all addresses with the same prefix.
_IPV6_PREFIX = 64


# All requests of a connection have the same peer.
@lru_cache(1024)
def parse_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the address; None for any other text."""
    try:
        address = ipaddress.ip_address(text)
    except ValueError:
        return None
    # A dual-stack socket reports an IPv4 peer as a mapped IPv6 address.
    return getattr(address, "ipv4_mapped", None) or address


def limit_key(address: str) -> str:
    """Return the key that all addresses of one client share: an IPv4 address itself, or an IPv6 address's /64.

    All texts that are no address, such as the peer of a unix socket, share one key.
    """
    parsed = parse_address(address)
    if parsed is None:
        return OVERFLOW_KEY
    if parsed.version == 4:
        return str(parsed)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
