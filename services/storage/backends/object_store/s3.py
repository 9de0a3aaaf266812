"""Buckets of S3 and of compatible stores.

boto3 alone finds the endpoint and the credentials, for both libraries, so that the two cannot differ.
"""

import asyncio
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError
from obstore.store import S3Store

from services.storage.backends.object_store.bucket import Bucket, delete
from services.storage.backends.object_store.client_options import StoreOptions, request_options, upload_options
from services.storage.backends.object_store.deadlines import ANSWER_SECONDS, CONNECT_SECONDS, SILENCE_SECONDS
from services.storage.backends.object_store.errors import asked
from services.storage.backends.object_store.location import S3Location
from services.storage.backends.object_store.signed_puts import SignedPuts

if TYPE_CHECKING:  # types that do not exist at run time
    from obstore.store import S3Credential
    from types_boto3_s3 import S3Client

_REGION = "us-east-1"
# boto3 renews credentials long before they expire, but only when it is asked for them.
_ASKED_AGAIN = timedelta(minutes=1)
# S3 demands another look after an abort, because a part that is just arriving may survive the abort.
_ROUNDS = 3


def open_bucket(location: S3Location) -> Bucket:
    """Open a bucket; may get credentials from a file or the host. Raises ValueError if there are no usable ones."""
    try:
        return _open(location)
    except BotoCoreError as error:
        raise ValueError(f"storage_url: s3: the settings of AWS cannot be used: {type(error).__name__}") from None


def _open(location: S3Location) -> Bucket:
    session = boto3.session.Session()
    found = session.get_credentials()
    if found is None:
        raise ValueError("storage_url: s3: expected credentials in the environment, ~/.aws, or a role of this host")
    region = location.region or session.region_name or _REGION
    client = session.client("s3", region_name=region, endpoint_url=location.endpoint, config=_config(location))
    endpoint = client.meta.endpoint_url

    def store(options: StoreOptions, provider: _Provider) -> S3Store:
        return S3Store(
            location.bucket,
            region=region,
            aws_endpoint_url_s3=_endpoint(location, endpoint),
            virtual_hosted_style_request=location.addressing == "virtual",
            checksum_algorithm="SHA256",
            # Keys are deleted one at a time, and not every store supports the call for many.
            disable_bulk_delete=True,
            credential_provider=provider,
            **options,
        )

    provider = _Provider(found)
    requests = store(request_options(endpoint), provider)

    async def discard(key: str) -> None:
        # In this order, because an upload that finishes between the two calls leaves an object, never the reverse.
        async with asked("abort uploads in parts", ANSWER_SECONDS):
            for _ in range(_ROUNDS):
                # In a thread, whose duration the client's own timeouts limit.
                if not await asyncio.to_thread(_abort, client, location.bucket, key):
                    break
        await delete(requests, key)

    def renewed_end() -> datetime | None:
        found.get_frozen_credentials()
        return _end_of(found)

    return Bucket(
        uploads=store(upload_options(endpoint), _Provider(found)),
        requests=requests,
        discard=discard,
        puts=SignedPuts(client, location.bucket),
        credentials_end=lambda: provider.end,
        renewed_credentials_end=renewed_end,
    )


def _abort(client: "S3Client", bucket: str, key: str) -> int:
    """Abort all multipart uploads of exactly this key, and return their number."""
    # Through boto3, because obstore can neither list nor abort them.
    pages = client.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, Prefix=key)
    # The prefix also matches longer keys.
    ids = [upload["UploadId"] for page in pages for upload in page.get("Uploads", []) if upload["Key"] == key]
    for upload_id in ids:
        with suppress(client.exceptions.NoSuchUpload):
            client.abort_multipart_upload(Bucket=bucket, Key=key, UploadId=upload_id)
    return len(ids)


def _end_of(credentials: Credentials) -> datetime | None:
    # botocore exposes the expiry nowhere else; credentials from the environment have none.
    end = getattr(credentials, "_expiry_time", None)
    return end if isinstance(end, datetime) else None


def _config(location: S3Location) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=SILENCE_SECONDS,
        # Many attempts, because the pauses between them are random and a few may all be short. `asked` limits the
        # total wait.
        retries={"mode": "standard", "total_max_attempts": 8},
        signature_version="s3v4",
        s3={"addressing_style": location.addressing},
        # Only the URL of the store determines the endpoint.
        ignore_configured_endpoint_urls=True,  # type: ignore[call-arg] # the stubs do not have it
    )


def _endpoint(location: S3Location, endpoint: str) -> str:
    if location.addressing == "path":
        return endpoint
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{location.bucket}.{host}"


class _Provider:
    """The credential provider of one obstore client, which calls it in its own threads, so that boto3 may block."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.end: datetime | None = None
        """The expiry of the credentials that were returned last; None if it is unknown."""

    def __call__(self) -> "S3Credential":
        frozen = self._credentials.get_frozen_credentials()
        self.end = _end_of(self._credentials)
        if frozen.access_key is None or frozen.secret_key is None:
            raise ValueError("the credentials are incomplete")
        return {
            "access_key_id": frozen.access_key,
            "secret_access_key": frozen.secret_key,
            "token": frozen.token,
            "expires_at": datetime.now(UTC) + _ASKED_AGAIN,
        }
