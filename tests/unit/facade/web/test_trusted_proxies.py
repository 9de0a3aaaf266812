"""Proxies that are trusted by a name, whose addresses come and go (trap-33)."""

import asyncio
import socket

import pytest

from services.facade.web import trusted_proxies
from services.facade.web.forwarded_headers import is_trusted
from services.facade.web.trusted_proxies import TrustedProxies, resolved_proxies
from tests.support.waiting import until

NAME = "proxy.example.org"


class _Names:
    """Host names that resolve in this test; no other name resolves."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: list[str] = []
        self.threads: set[str] = set()
        monkeypatch.setattr(socket, "getaddrinfo", self._find)
        monkeypatch.setattr(trusted_proxies, "_INTERVAL_SECONDS", 0.05)

    def _find(self, host: str, *_: object, **__: object) -> list[tuple[object, object, int, str, tuple[object, ...]]]:
        with pytest.raises(RuntimeError):
            # It may take seconds: no loop waits for it.
            asyncio.get_running_loop()
        if host != NAME or not self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "no such name")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 0)) for address in self.addresses]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> _Names:
    """The names of this test."""
    return _Names(monkeypatch)


async def test_a_name_is_each_of_its_addresses_as_long_as_it_has_them(names: _Names) -> None:
    """A proxy that is made anew has another address; the one it had may be a stranger's by then."""
    names.addresses = ["192.0.2.1", "2001:db8::1"]
    async with resolved_proxies(f"10.0.0.0/8, {NAME}") as trusted:
        assert [is_trusted(address, trusted) for address in ("192.0.2.1", "2001:db8::1", "10.1.1.1")] == [True] * 3
        assert not is_trusted("192.0.2.2", trusted)
        names.addresses = ["192.0.2.2"]
        await until(lambda: is_trusted("192.0.2.2", trusted), "the new address is trusted")
        assert not is_trusted("192.0.2.1", trusted)
        names.addresses = []
        await until(lambda: not is_trusted("192.0.2.2", trusted), "the name is nobody's")
        assert is_trusted("10.1.1.1", trusted)


async def test_a_name_that_does_not_resolve_trusts_nobody(names: _Names) -> None:
    """A stack without a proxy has none that could be believed; the facade starts nevertheless."""
    async with resolved_proxies(NAME) as trusted:
        assert names.addresses == []
        assert list(trusted) == []


@pytest.mark.parametrize("text", ["proxy", "a-b.example", "PROXY_1", "xn--bcher-kva.example"])
def test_names(text: str) -> None:
    """Operators name proxies by host names, so text of that form is taken for a name."""
    assert TrustedProxies(text).names == [text]


@pytest.mark.parametrize("text", ["10.0.0.256", "10.0.0.0/33", "a b", "-a", "a-", "a..b", "a/24", "http://a", "[::1]"])
def test_what_is_neither_is_refused(text: str) -> None:
    """An address with a slip of the pen is not looked up as a name."""
    with pytest.raises(ValueError, match="does not appear"):
        TrustedProxies(text)
