"""The one who has an address, as far as limits go."""

import ipaddress

OVERFLOW_KEY = "others"

# Whoever has one IPv6 address has all of these.
_IPV6_PREFIX = 64


def limit_key(address: str) -> str:
    """Return what stands for all addresses of one holder: an IPv4 address itself, of an IPv6 address its /64.

    What is no address, such as the peer of a unix socket, cannot be told apart.
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
