"""URLs and addresses to which webhooks may be delivered: none inside of the network, unless a hook allows it.

A host is resolved once, and each of its addresses must be allowed. The request then goes to an address that was
checked, so that a name server that changes its answer has no second chance.
"""

import asyncio
import re
import socket
from collections.abc import Sequence
from concurrent.futures import Executor
from functools import partial

import httpx

from services.common.outbound import is_allowed, parse_url

_MAX_URL_CHARACTERS = 2_000
_MAX_PORT = 65_535
_URL = re.compile(r"https?://[!-~]+", re.ASCII)


class ReceiverError(ValueError):
    """A URL or an address to which nothing is delivered; the message says why."""


def parse_receiver(url: str, *, allows_private: bool) -> httpx.URL:
    """Return the parsed URL of a receiver. Raises `ReceiverError` for one that no hook can have."""
    if len(url) > _MAX_URL_CHARACTERS or not _URL.fullmatch(url):
        raise ReceiverError(f"expected https://HOST/..., at most {_MAX_URL_CHARACTERS} characters of ASCII")
    try:
        parsed = parse_url(url)
    except httpx.InvalidURL as error:
        raise ReceiverError("expected an absolute URL with a host") from error
    if not parsed.host or parsed.userinfo or parsed.fragment or (parsed.port or 1) > _MAX_PORT:
        raise ReceiverError("expected an absolute URL with a host, and without credentials and a fragment")
    if parsed.scheme != "https" and not allows_private:
        raise ReceiverError("expected https; a hook that allows private addresses may use http")
    return parsed


async def resolve(receiver: httpx.URL, *, allows_private: bool, executor: Executor | None = None) -> Sequence[str]:
    """Return the addresses of a receiver. Raises `ReceiverError` if there are none, or if one of them is not allowed.

    The lookup runs in a thread of `executor`, and ends there even if the caller no longer waits.
    """
    look_up = partial(socket.getaddrinfo, receiver.host, receiver.port, type=socket.SOCK_STREAM)
    try:
        found = await asyncio.get_running_loop().run_in_executor(executor, look_up)
    except (OSError, UnicodeError) as error:
        raise ReceiverError(f"the host {receiver.host} cannot be resolved") from error
    addresses = list(dict.fromkeys(str(place[0]) for *_, place in found))
    for address in addresses:
        if not is_allowed(address, allows_private=allows_private):
            private = not allows_private and is_allowed(address, allows_private=True)
            why = "private, and the hook does not allow private addresses" if private else "not one of the internet"
            raise ReceiverError(f"the address {address} of {receiver.host} is {why}")
    return addresses
