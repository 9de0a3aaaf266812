"""The holder of an address."""

import pytest

from services.common.client_addresses import limit_key


@pytest.mark.parametrize(
    ("address", "holder"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::", "2001:db8:1:2::/64"),
        ("", "others"),
    ],
)
def test_holder(address: str, holder: str) -> None:
    """An IPv6 client has 2**64 addresses, which must not be as many limits."""
    assert limit_key(address) == holder
