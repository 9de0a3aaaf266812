"""Presigned PUT of S3, bound to what is put, and what S3 says of what was put: obstore can do neither."""

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING

from services.storage.backends.signing import StoredFacts

if TYPE_CHECKING:  # only the types of boto3's client, which are made at run time
    from types_boto3_s3 import S3Client

_NOT_FOUND = 404
# What a client could otherwise choose, and the store would tell to all who download. No compression: some clients
# would undo it.
_TYPE, _ENCODING = "application/octet-stream", "identity"


class SignedPuts:
    """Of one bucket. All methods work in the calling thread and raise the errors of botocore."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    def sign(self, key: str, oid: str, size: int, seconds: int) -> tuple[str, Mapping[str, str]]:
        """Return the address and the headers by which exactly these bytes can be put."""
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
        # The client knows the length and the host by itself.
        return url, {"Content-Type": _TYPE, "Content-Encoding": _ENCODING, "x-amz-checksum-sha256": checksum}

    def facts(self, key: str) -> StoredFacts | None:
        """Return what S3 says of an object; None where there is none."""
        try:
            head = self._client.head_object(Bucket=self._bucket, Key=key, ChecksumMode="ENABLED")
        except self._client.exceptions.ClientError as error:
            if error.response.get("ResponseMetadata", {}).get("HTTPStatusCode") == _NOT_FOUND:
                return None
            raise
        return StoredFacts(head["ContentLength"], _hexadecimal(head.get("ChecksumSHA256", "")))

    def copying_headers(self, key: str) -> Mapping[str, str]:
        """Return the headers that ask for a copy."""
        return {"x-amz-copy-source": f"/{self._bucket}/{key}"}


def _hexadecimal(checksum: str) -> str | None:
    """Return a checksum as oids are written; None for that of an upload in parts, which is a checksum of checksums."""
    try:
        digest = base64.b64decode(checksum, validate=True)
    except ValueError:
        return None
    return digest.hex() if digest else None
