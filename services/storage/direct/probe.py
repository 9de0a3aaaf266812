"""Probe of a store: tests, with signed URLs like those of clients, that the store does what direct transfer relies on.

The probe uses the endpoint of this service, and random bytes. Its blob names are pending, and never committed.
"""

import asyncio
import secrets
from collections.abc import Mapping
from hashlib import sha256

import httpx

from services.storage.backends.base import Backend
from services.storage.backends.signing import SignedUrl, Signer, StoredFacts
from services.storage.blob_names import new_name
from services.storage.context import StorageContext
from services.storage.stores.registry import Store
from services.storage.uploads.pending import pending_blobs

_BYTES = 1000
_RANGE = (100, 199)
# The clock of the store may be late by this much.
_CLOCK_SECONDS = 15


class Unsuitable(Exception):
    """The store fails a requirement of direct transfer; the text names the requirement."""


def fresh() -> tuple[bytes, str]:
    """Return bytes that were never stored before, and a blob name for them."""
    data = secrets.token_bytes(_BYTES)
    return data, new_name(sha256(data).hexdigest())


async def probe_downloads(context: StorageContext, store: Store, signer: Signer, http: httpx.AsyncClient) -> None:
    """Raise `Unsuitable` unless a signed URL yields a range of bytes, and nothing after its expiry."""
    data, name = fresh()
    async with pending_blobs(context, store, name):
        await _put_in_place(store.backend, name, data)
        [brief] = await signer.downloads([name], 1)
        [good] = await signer.downloads([name], 60)
        first, last = _RANGE
        part = await http.get(good.url, headers={**good.headers, "Range": f"bytes={first}-{last}"})
        _require(part.status_code == httpx.codes.PARTIAL_CONTENT, "it does not answer a range with 206", part)
        _require(part.content == data[first : last + 1], "a range has other bytes", part)
        await _require_end(http, "GET", brief)


async def probe_uploads(context: StorageContext, store: Store, signer: Signer, http: httpx.AsyncClient) -> None:
    """Raise `Unsuitable` unless a signed URL accepts only its own bytes, and the store reports size and SHA-256."""
    data, name = fresh()
    other, copied = fresh()
    late, expired = fresh()
    async with pending_blobs(context, store, name, copied, expired):
        [brief] = await signer.uploads([(expired, len(late))], 1)
        [good] = await signer.uploads([(name, len(data))], 60)
        headers = good.headers
        await _require_refusal(signer, name, http, good, other, headers, "other bytes")
        await _require_refusal(signer, name, http, good, data[:-1], headers, "fewer bytes")
        await _require_refusal(signer, name, http, good, data + b"x", headers, "more bytes")
        await _require_refusal(signer, name, http, good, other, {}, "bytes without their checksum")
        right = await http.put(good.url, headers=headers, content=data)
        _require(right.is_success, "it refuses the right bytes", right)
        _require(await signer.facts(name) == StoredFacts(len(data), name[:64]), "it does not tell the SHA-256 of bytes")
        replayed = await http.put(good.url, headers=headers, content=other)
        _require(not replayed.is_success, "it lets other bytes take the place of the right ones", replayed)
        [target] = await signer.uploads([(copied, len(other))], 60)
        copying = {**target.headers, **signer.copying_headers(name)}
        await _require_refusal(signer, copied, http, target, other, copying, "a copy of other bytes")
        await _require_end(http, "PUT", brief, late)


async def _put_in_place(backend: Backend, name: str, data: bytes) -> None:
    async with backend.create(name, len(data)) as upload:
        await upload.write(data)
        await upload.finish()


async def _require_refusal(
    signer: Signer,
    name: str,
    http: httpx.AsyncClient,
    signed: SignedUrl,
    body: bytes,
    headers: Mapping[str, str],
    what: str,
) -> None:
    answer = await http.put(signed.url, headers=headers, content=body)
    _require(not answer.is_success, f"it takes {what}", answer)
    _require(await signer.facts(name) is None, f"it keeps {what} that it refuses")


async def _require_end(http: httpx.AsyncClient, method: str, signed: SignedUrl, body: bytes | None = None) -> None:
    """Wait for the expiry of a URL that is valid for one second: the store must then refuse it."""
    for _ in range(_CLOCK_SECONDS):
        await asyncio.sleep(1)
        answer = await http.request(method, signed.url, headers=signed.headers, content=body)
        if not answer.is_success:
            _require(answer.is_client_error, "it fails after the end of an address", answer)
            return
    raise Unsuitable("it answers after the end of an address")


def _require(holds: bool, problem: str, answer: httpx.Response | None = None) -> None:
    """Raise `Unsuitable` unless the requirement `holds`, and RemoteProtocolError if the store failed altogether."""
    if answer is not None and answer.is_server_error:
        raise httpx.RemoteProtocolError(f"the store answers {answer.status_code}")
    if not holds:
        status = "" if answer is None else f" ({answer.status_code})"
        raise Unsuitable(f"{problem}{status}")
