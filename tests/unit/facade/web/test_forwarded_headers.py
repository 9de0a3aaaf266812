"""Trust in proxies that report how a request looks from the outside (trap-33)."""

import pytest
from starlette.datastructures import Headers

from services.facade.web.forwarded_headers import ClientRequest, client_network, resolve_client
from services.facade.web.trusted_proxies import TrustedProxies

TRUSTED = TrustedProxies("10.0.0.0/8, 127.0.0.1,fd00::/8")


def _seen(peer: str, *headers: tuple[str, str]) -> ClientRequest:
    raw = [(name.encode(), text.encode()) for name, text in (("host", "inside:8080"), *headers)]
    return resolve_client(peer, "http", Headers(raw=raw), TRUSTED)


ALL = (
    ("x-forwarded-for", "203.0.113.7"),
    ("x-forwarded-proto", "https"),
    ("x-forwarded-host", "lfs.example.org"),
    ("x-forwarded-prefix", "/lfs"),
    ("x-request-id", "given-by-the-proxy"),
)


@pytest.mark.parametrize("peer", ["10.1.2.3", "127.0.0.1", "::ffff:127.0.0.1", "fd00::1"])
def test_a_trusted_proxy_is_believed(peer: str) -> None:
    """In all that it says; an IPv4 address may come in the form that an IPv6 socket gives it."""
    expected = ClientRequest("203.0.113.7", "https", ["lfs.example.org"], "/lfs", "given-by-the-proxy")
    assert _seen(peer, *ALL) == expected


@pytest.mark.parametrize("peer", ["11.0.0.1", "127.0.0.2", "::1", "", "/run/proxy.sock", "10.0.0.1.example.org"])
def test_nobody_else_is(peer: str) -> None:
    """A stranger, a unix socket, or nothing that is an address: what it says of itself changes nothing."""
    assert _seen(peer, *ALL) == ClientRequest(peer, "http", ["inside:8080"])


def test_without_a_list_nobody_is_trusted() -> None:
    """A client can forge the headers, so by default no proxy is trusted."""
    headers = Headers(dict(ALL) | {"host": "h"})
    assert resolve_client("127.0.0.1", "http", headers, TrustedProxies("")) == ClientRequest("127.0.0.1", "http", ["h"])


@pytest.mark.parametrize(
    ("forwarded_for", "client"),
    [
        (["203.0.113.7"], "203.0.113.7"),
        (["1.2.3.4, 203.0.113.7"], "203.0.113.7"),
        (["203.0.113.7, 10.0.0.2, 10.0.0.3"], "203.0.113.7"),
        (["1.2.3.4", "203.0.113.7, 10.0.0.2"], "203.0.113.7"),
        (["10.0.0.9, 10.0.0.2"], "10.0.0.9"),
        (["203.0.113.7:4711"], "203.0.113.7"),
        (["[2001:db8::7]:4711"], "2001:db8::7"),
        (["[2001:db8::7]"], "2001:db8::7"),
        (["2001:db8::7"], "2001:db8::7"),
        (["203.0.113.7, unknown, 10.0.0.2"], "10.0.0.2"),
        (["203.0.113.7, , 10.0.0.2"], "203.0.113.7"),
        (["unknown"], "10.0.0.1"),
        (["203.0.113.7:x"], "10.0.0.1"),
        (["<script>", ""], "10.0.0.1"),
        ([], "10.0.0.1"),
    ],
)
def test_the_client_is_the_right_most_untrusted_address(forwarded_for: list[str], client: str) -> None:
    """The client may have written all that is left of its address; a malformed entry ends the search."""
    assert _seen("10.0.0.1", *(("x-forwarded-for", line) for line in forwarded_for)).address == client


def test_of_several_values_that_of_the_outermost_proxy_counts() -> None:
    """Some proxies in a row append their value and others pass on the existing one, so both must work."""
    row = ("x-forwarded-for", "203.0.113.7, 10.0.0.2")
    appended = _seen("10.0.0.1", row, ("x-forwarded-proto", "evil, https, http"), ("x-forwarded-host", "evil, a, b"))
    assert (appended.scheme, appended.hosts) == ("https", ["a"])
    handed_on = _seen("10.0.0.1", row, ("x-forwarded-proto", "https"), ("x-forwarded-host", "a"))
    assert (handed_on.scheme, handed_on.hosts) == ("https", ["a"])
    one = _seen("10.0.0.1", ("x-forwarded-for", "203.0.113.7"), ("x-forwarded-proto", "https, http"))
    assert one.scheme == "http"


@pytest.mark.parametrize(
    ("given", "prefix"), [("/lfs", "/lfs"), ("/lfs/", "/lfs"), ("/a/b_c.d~e-f%20", "/a/b_c.d~e-f%20")]
)
def test_a_prefix_is_a_path(given: str, prefix: str) -> None:
    """With or without a slash at its end."""
    assert _seen("10.0.0.1", ("x-forwarded-prefix", given)).prefix == prefix


@pytest.mark.parametrize(
    "prefix",
    [
        "lfs",
        "//evil.example",
        "/a//b",
        "/..",
        "/a/../b",
        "/.",
        "/a?b",
        "/a#b",
        "/a=b",
        "/a b",
        "/a\\b",
        '/a"',
        "/ä",
        "/",
    ],
)
def test_a_malformed_prefix_is_ignored(prefix: str) -> None:
    """It cannot lead an href elsewhere."""
    headers = Headers(raw=[(b"x-forwarded-prefix", prefix.encode("latin-1"))])
    assert resolve_client("10.0.0.1", "http", headers, TRUSTED).prefix == ""


@pytest.mark.parametrize(
    ("given", "scheme"),
    [
        ("HTTPS", "https"),
        (" https ", "https"),
        *((wrong, "http") for wrong in ("ftp", "x", "https://evil.example", "")),
    ],
)
def test_a_scheme_may_be_written_in_any_way(given: str, scheme: str) -> None:
    """As headers are; where it is malformed, that of the connection stands."""
    assert _seen("10.0.0.1", ("x-forwarded-proto", given)).scheme == scheme


@pytest.mark.parametrize("given", ["", "a b", "x" * 65, "ü"])
def test_a_malformed_request_id_is_not_taken(given: str) -> None:
    """It marks no repeat."""
    headers = Headers(raw=[(b"x-request-id", given.encode("latin-1"))])
    assert resolve_client("10.0.0.1", "http", headers, TRUSTED).request_id == ""


@pytest.mark.parametrize("address", ["127.0.0.1", "::1", "10.1.2.3", "::ffff:10.1.2.3", "", "unix"])
def test_an_address_behind_which_anybody_is_is_no_clients(address: str) -> None:
    """A proxy that does not tell for whom it asks is not taken for one greedy client."""
    assert client_network(address, TrustedProxies("10.0.0.0/8")) is None
