"""Delivery of one message: a signed POST, bounded in time, to an address that was checked."""

import asyncio
import ssl
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

import httpx
from standardwebhooks import Webhook

from services.common.outbound import check_location, retry_after
from services.locks.webhooks.addresses import ReceiverError, parse_receiver, resolve

GONE = 410
"""The status of a receiver that wants no more deliveries."""

_CONNECT_SECONDS = 3.0
_MAX_ADDRESSES = 3
_MAX_PROBLEM_CHARACTERS = 200


class Message(NamedTuple):
    """A message, and the hook that it goes to."""

    id: str
    body: str
    url: str
    secret: str
    allows_private: bool


class Outcome(NamedTuple):
    """The result of an attempt: the status, if the receiver answered, and what went wrong; empty if nothing did.

    `pause` is the time for which the receiver asks to wait.
    """

    status: int | None
    problem: str
    pause: timedelta = timedelta()


class Sender:
    """Sends messages. Its owner closes it.

    Neither redirects nor the proxies of the environment are followed, and the body of an answer is never read.
    """

    def __init__(self, *, answer_seconds: float, max_concurrency: int) -> None:
        self._answer_seconds = answer_seconds
        # Slow name servers hold up lookups of other hooks only, and no other work in threads.
        self._resolvers = ThreadPoolExecutor(max_concurrency, thread_name_prefix="webhook-resolver")
        self._tls: asyncio.Future[ssl.SSLContext] | None = None

    def close(self) -> None:
        """Let the threads end, without waiting for lookups that still run."""
        self._resolvers.shutdown(wait=False, cancel_futures=True)

    async def send(self, message: Message) -> Outcome:
        """Attempt a delivery. It succeeds if the receiver answers 2xx in time; any failure is an outcome."""
        try:
            async with asyncio.timeout(self._answer_seconds):
                response = await self._post(message)
        except TimeoutError:
            return Outcome(None, f"no answer within {self._answer_seconds:g} s")
        except ReceiverError as error:
            return Outcome(None, str(error))
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            return Outcome(None, f"{type(error).__name__}: {error}"[:_MAX_PROBLEM_CHARACTERS])
        status = response.status_code
        if 200 <= status < 300:
            return Outcome(status, "")
        redirect = ", and redirects are not followed" if 300 <= status < 400 else ""
        seconds = retry_after(response.headers.get("retry-after"), datetime.now(UTC)) or 0.0
        return Outcome(status, f"the receiver answered {status}{redirect}", timedelta(seconds=seconds))

    async def _post(self, message: Message) -> httpx.Response:
        receiver = parse_receiver(message.url, allows_private=message.allows_private)
        addresses = await resolve(receiver, allows_private=message.allows_private, executor=self._resolvers)
        return await self._post_to(addresses[:_MAX_ADDRESSES], receiver, message)

    async def _post_to(self, addresses: Sequence[str], receiver: httpx.URL, message: Message) -> httpx.Response:
        """Post to the first of the addresses that can be connected to, and return the answer without its body."""
        headers = _headers(receiver, message)
        tls = await self._tls_context()
        for number, address in enumerate(addresses, 1):
            try:
                # A client for each request: a connection is for one name, and the pool knows it by its address.
                async with (
                    httpx.AsyncClient(
                        verify=tls,
                        trust_env=False,
                        timeout=httpx.Timeout(self._answer_seconds, connect=_CONNECT_SECONDS),
                        event_hooks={"response": [check_location]},
                    ) as client,
                    client.stream(
                        "POST",
                        receiver.copy_with(host=address),
                        headers=headers,
                        content=message.body.encode(),
                        # The name in the certificate and in SNI, in place of the address.
                        extensions={"sni_hostname": receiver.raw_host.decode("ascii")},
                    ) as response,
                ):
                    return response
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if number == len(addresses):
                    raise
        raise ReceiverError(f"the host {receiver.host} has no address")

    async def _tls_context(self) -> ssl.SSLContext:
        """Return the context of all requests; it is made once, in a thread, because it reads all certificates."""
        if self._tls is None:
            self._tls = asyncio.ensure_future(asyncio.to_thread(httpx.create_ssl_context))
        return await asyncio.shield(self._tls)


@cache
def _user_agent() -> str:
    return f"towpath/{version('towpath')}"


def _headers(receiver: httpx.URL, message: Message) -> dict[str, str]:
    """Return the headers of a message, as Standard Webhooks defines them, for an attempt that is made now."""
    now = datetime.now(UTC)
    return {
        "Host": receiver.netloc.decode("ascii"),
        "Content-Type": "application/json",
        "User-Agent": _user_agent(),
        "webhook-id": message.id,
        "webhook-timestamp": str(int(now.timestamp())),
        "webhook-signature": Webhook(message.secret).sign(message.id, now, message.body),
    }
