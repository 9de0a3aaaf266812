"""Sizes of the parts of a multipart upload."""

from services.common.errors import InvalidArgument, Reason

MEBIBYTE = 1024 * 1024

PART_BYTES = 5 * MEBIBYTE
"""The least that S3 accepts for a part that is not the last. An upload that fits in one part is put as a whole."""

_MAX_PARTS = 10_000
_MAX_BYTES = 5 * 1024**4


def part_bytes(size: int) -> int:
    """Return the size of each part but the last, a whole number of MiB, for an upload of `size` bytes.

    Parts are as small as S3 allows because each upload has two of them in memory. Raises `InvalidArgument` for more
    than 5 TiB, the limit for an object of S3.
    """
    if size > _MAX_BYTES:
        raise InvalidArgument(
            Reason.INVALID_FIELD,
            f"size: expected at most {_MAX_BYTES}, which is all that S3 takes, got {size}",
        )
    least = -(-size // _MAX_PARTS)
    return max(PART_BYTES, -(-least // MEBIBYTE) * MEBIBYTE)
