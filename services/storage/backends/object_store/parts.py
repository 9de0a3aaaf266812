"""How large the parts of an upload are."""

from services.common.errors import InvalidArgument, Reason

MEBIBYTE = 1024 * 1024

PART_BYTES = 5 * MEBIBYTE
"""The least that S3 takes for a part that is not the last. What fits in one is put as a whole."""

_MAX_PARTS = 10_000
_MAX_BYTES = 5 * 1024**4


def part_bytes(size: int) -> int:
    """Return the size of each part but the last, a whole number of MiB, for an upload of `size` bytes.

    Parts are as small as S3 allows, since each upload holds two of them in memory. Raises `InvalidArgument` for more
    than the 5 TiB that an object of S3 may have.
    """
    if size > _MAX_BYTES:
        raise InvalidArgument(
            Reason.INVALID_FIELD,
            f"size: expected at most {_MAX_BYTES}, which is all that S3 takes, got {size}",
        )
    least = -(-size // _MAX_PARTS)
    return max(PART_BYTES, -(-least // MEBIBYTE) * MEBIBYTE)
