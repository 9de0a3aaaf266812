"""Signing of URLs of an object store; see `services.storage.backends.signing.Signer`."""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import obstore

from services.storage.backends.object_store.bucket import Bucket
from services.storage.backends.object_store.deadlines import ANSWER_SECONDS
from services.storage.backends.object_store.errors import asked
from services.storage.backends.object_store.keys import key_of
from services.storage.backends.object_store.signed_puts import SignedPuts
from services.storage.backends.signing import SignedUrl, StoredFacts
from services.storage.blob_names import oid_of


class UrlSigner:
    """Signs URLs with the clients of a bucket."""

    def __init__(self, bucket: Bucket, prefix: str) -> None:
        self._bucket = bucket
        self._prefix = prefix

    async def downloads(self, names: Sequence[str], seconds: int) -> list[SignedUrl]:
        """Sign URLs for GET."""
        if not names:
            return []
        keys = [key_of(self._prefix, name) for name in names]
        end = _end(seconds)
        # obstore signs with the credentials from before the call or from after it, so the earlier expiry is safe.
        ends = [end, self._bucket.credentials_end()]
        async with asked("sign addresses", ANSWER_SECONDS):
            urls = await obstore.sign_async(self._bucket.requests, "GET", keys, timedelta(seconds=seconds))
        ends.append(self._bucket.credentials_end())
        expires_at = min(filter(None, ends))
        return [SignedUrl(url, {}, expires_at) for url in urls]

    async def uploads(self, contents: Sequence[tuple[str, int]], seconds: int) -> list[SignedUrl]:
        """Sign URLs for PUT."""
        puts = self._puts()

        def sign() -> list[SignedUrl]:
            # Credentials that are renewed later do not expire earlier.
            expires_at = min(filter(None, [_end(seconds), self._bucket.renewed_credentials_end()]))
            signed = [puts.sign(key_of(self._prefix, name), oid_of(name), size, seconds) for name, size in contents]
            return [SignedUrl(url, headers, expires_at) for url, headers in signed]

        async with asked("sign addresses", ANSWER_SECONDS):
            return await asyncio.to_thread(sign)

    async def facts(self, name: str) -> StoredFacts | None:
        """Request the size and the checksum of a blob."""
        async with asked("ask for the checksum of an object", ANSWER_SECONDS):
            return await asyncio.to_thread(self._puts().facts, key_of(self._prefix, name))

    def copying_headers(self, name: str) -> Mapping[str, str]:
        """Return the headers that request a copy within the bucket."""
        return self._puts().copying_headers(key_of(self._prefix, name))

    def _puts(self) -> SignedPuts:
        if self._bucket.puts is None:
            raise ValueError("this store signs no uploads")
        return self._bucket.puts


def _end(seconds: int) -> datetime:
    # Signatures have times in whole seconds.
    return datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=seconds)
