"""S3, and what speaks as it does.

Where the bucket is and who asks is found once, by boto3, for both libraries: so they cannot differ.
"""

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import boto3
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import BotoCoreError
from obstore.store import S3Store

from services.storage.backends.object_store.bucket import Bucket, delete
from services.storage.backends.object_store.client_options import StoreOptions, request_options, upload_options
from services.storage.backends.object_store.deadlines import CONNECT_SECONDS, SILENCE_SECONDS
from services.storage.backends.object_store.location import S3Location
from services.storage.backends.object_store.multipart import MultipartUploads
from services.storage.backends.object_store.signed_puts import SignedPuts

if TYPE_CHECKING:  # a type of obstore that does not exist at run time
    from obstore.store import S3Credential

_REGION = "us-east-1"
# boto3 makes new ones long before they expire; it only has to be asked.
_ASKED_AGAIN = timedelta(minutes=1)


def open_bucket(location: S3Location) -> Bucket:
    """Open a bucket; may ask a file or the host for credentials. Raises ValueError where there are none."""
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
            # One key at a time is deleted; not every store knows the call for many.
            disable_bulk_delete=True,
            credential_provider=provider,
            **options,
        )

    provider = _Provider(found)
    requests = store(request_options(endpoint), provider)
    multipart = MultipartUploads(client, location.bucket)

    async def discard(key: str) -> None:
        # In this order: an upload that ends between the two leaves an object, and no object becomes an upload.
        await multipart.abort(key)
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


def _end_of(credentials: Credentials) -> datetime | None:
    # botocore tells it nowhere else; those of the environment have none.
    end = getattr(credentials, "_expiry_time", None)
    return end if isinstance(end, datetime) else None


def _config(location: S3Location) -> Config:
    return Config(
        connect_timeout=CONNECT_SECONDS,
        read_timeout=SILENCE_SECONDS,
        # The pauses between them are random, so a few may all be short; who asks waits for an answer as long as ever.
        retries={"mode": "standard", "total_max_attempts": 8},
        signature_version="s3v4",
        s3={"addressing_style": location.addressing},
        # The URL of the storage says where the bucket is, and nothing else does.
        ignore_configured_endpoint_urls=True,  # type: ignore[call-arg] # the stubs do not have it
    )


def _endpoint(location: S3Location, endpoint: str) -> str:
    if location.addressing == "path":
        return endpoint
    scheme, _, host = endpoint.partition("://")
    return f"{scheme}://{location.bucket}.{host}"


class _Provider:
    """What one client of obstore asks for credentials, in threads of its own; so boto3 may take its time."""

    def __init__(self, credentials: Credentials) -> None:
        self._credentials = credentials
        self.end: datetime | None = None
        """When those end that were given last; None where that is not known."""

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
