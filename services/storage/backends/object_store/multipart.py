"""Unfinished multipart uploads of S3, through boto3 because obstore can neither list nor abort them."""

import asyncio
from typing import TYPE_CHECKING

from services.storage.backends.object_store.deadlines import ANSWER_SECONDS
from services.storage.backends.object_store.errors import asked

if TYPE_CHECKING:  # only the types of boto3's client, which are made at run time
    from types_boto3_s3 import S3Client

# S3 demands another look after an abort, because a part that is just arriving may survive the abort.
_ROUNDS = 3


class MultipartUploads:
    """The multipart uploads of one bucket. The client works in threads, whose duration its own timeouts limit."""

    def __init__(self, client: "S3Client", bucket: str) -> None:
        self._client = client
        self._bucket = bucket

    async def abort(self, key: str) -> None:
        """Abort all multipart uploads of exactly this key."""
        async with asked("abort uploads in parts", ANSWER_SECONDS):
            for _ in range(_ROUNDS):
                if not await asyncio.to_thread(self._abort, key):
                    return

    async def under(self, key: str) -> list[str]:
        """Return the ids of the multipart uploads of exactly this key."""
        async with asked("list uploads in parts", ANSWER_SECONDS):
            return await asyncio.to_thread(self._ids, key)

    def _abort(self, key: str) -> int:
        ids = self._ids(key)
        for upload_id in ids:
            try:
                self._client.abort_multipart_upload(Bucket=self._bucket, Key=key, UploadId=upload_id)
            except self._client.exceptions.NoSuchUpload:
                continue
        return len(ids)

    def _ids(self, key: str) -> list[str]:
        pages = self._client.get_paginator("list_multipart_uploads").paginate(Bucket=self._bucket, Prefix=key)
        # The prefix also matches longer keys.
        return [upload["UploadId"] for page in pages for upload in page.get("Uploads", []) if upload["Key"] == key]
