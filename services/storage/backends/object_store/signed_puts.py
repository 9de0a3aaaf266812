"""Presigned PUTs of S3, bound to their bytes, and the checksums that S3 reports: obstore supports neither."""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

from services.storage.backends.signing import StoredFacts

if TYPE_CHECKING:  # only the types of boto3's client, which are made at run time
    from types_boto3_s3 import S3Client

_NOT_FOUND = 404
# Fixed because a client could otherwise choose them, and the store would send them with every download. No
# compression, because some clients would undo it.
_TYPE, _ENCODING = "application/octet-stream", "identity"


class SignedPuts:
    """Presigned PUTs of one bucket. All methods block, and raise the errors of botocore."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def sign(self, key: str, oid: str, size: int, seconds: int) -> tuple[str, Mapping[str, str]]:
        """Return the URL and the headers with which a client can put exactly these bytes."""
        checksum = base64.b64encode(bytes.fromhex(oid)).decode()
        url = self._client.generate_presigned_url(
            "put_object",
            Params={
                "Bucket": self._bucket,
                "Key": key,
                "ContentLength": size,
                "ContentType": _TYPE,
                "ContentEncoding": _ENCODING,
                "ChecksumSHA256": checksum,
            },
            ExpiresIn=seconds,
        )
        # Without the length and the host, because the client sets these headers itself.
        return url, {"Content-Type": _TYPE, "Content-Encoding": _ENCODING, "x-amz-checksum-sha256": checksum}

    def facts(self, key: str) -> StoredFacts | None:
        """Return the size and the SHA-256 of an object as S3 reports them; None if there is no object."""
        try:
            head = self._client.head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED")
        except self._client.exceptions.ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == _NOT_FOUND:
                return None
            raise
        return StoredFacts(head["ContentLength"], _hexadecimal(head.get("ChecksumSHA256", "")))

    def copying_headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that request a copy within the bucket."""
        return {"x-amz-copy-source": f"/{self._bucket}/{key}"}


def _hexadecimal(checksum: str) -> str | None:
    """Return a checksum in the form of an oid; None for a multipart upload, whose checksum is one of checksums."""
    try:
        digest = base64.b64decode(checksum, validate=True)
    except ValueError:
        return None
    return digest.hex() if digest else None
