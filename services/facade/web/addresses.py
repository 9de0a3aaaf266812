"""Keys by which limits count client addresses."""

import ipaddress

OVERFLOW_KEY = "others"

# A client with one IPv6 address has all addresses with the same prefix.
_IPV6_PREFIX = 64


def limit_key(address: str) -> str:
    """Return the key that all addresses of one client share: an IPv4 address itself, or an IPv6 address's /64.

    All texts that are no address, such as the peer of a unix socket, share one key.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return OVERFLOW_KEY
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
