"""The one who has an address, as far as limits go."""

import ipaddress

UNKNOWN = "others"

# Whoever has one IPv6 address has all of these.
_IPV6_PREFIX = 64


def holder_of(address: str) -> str:
    """Return what stands for all addresses of one holder: an IPv4 address itself, of an IPv6 address its /64.

    What is no address, such as the peer of a unix socket, cannot be told apart.
    """
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return UNKNOWN
    if parsed.version == 4:
        return str(parsed)
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.ip_network((parsed, _IPV6_PREFIX), strict=False))
