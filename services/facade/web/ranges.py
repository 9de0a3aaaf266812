"""Range and conditional headers of requests for objects (RFC 9110, sections 13 and 14)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from services.common.errors import OutOfRange, Reason

_RANGES = re.compile(r"bytes=(.*)", re.IGNORECASE)
_RANGE = re.compile(r"([0-9]*)-([0-9]*)", re.ASCII)
_MAX_CHARACTERS = 200


@dataclass(frozen=True)
class ByteRange:
    """The bytes from `start` up to, but not including, `end`."""

    start: int
    end: int


def parse_range(headers: Sequence[str], size: int) -> ByteRange | None:
    """Return the part of an object of `size` bytes that the Range headers name; None for the whole of it.

    Headers that are not a single range of bytes are ignored, as the RFC permits. Raises `OutOfRange`, with the metadata
    `size`, where the range names no byte of the object.
    """
    if len(headers) != 1 or len(headers[0]) > _MAX_CHARACTERS:
        return None
    unit = _RANGES.fullmatch(headers[0].strip())
    if unit is None:
        return None
    parts = [part.strip() for part in unit[1].split(",") if part.strip()]
    found = _RANGE.fullmatch(parts[0]) if len(parts) == 1 else None
    if found is None or found[0] == "-":
        return None
    return _slice(found[1], found[2], size)


def _slice(first: str, last: str, size: int) -> ByteRange | None:
    if not first:
        if int(last) == 0:
            raise _unsatisfiable(size)
        # A Content-Range cannot express the last bytes of an empty object.
        return ByteRange(max(0, size - int(last)), size) if size else None
    if last and int(last) < int(first):
        return None
    if int(first) >= size:
        raise _unsatisfiable(size)
    return ByteRange(int(first), min(size, int(last) + 1) if last else size)


def _unsatisfiable(size: int) -> OutOfRange:
    message = f"range: the object has only {size} bytes"
    return OutOfRange(Reason.OFFSET_OUT_OF_RANGE, message, size=str(size))


def if_range_matches(if_range: str | None, etag: str) -> bool:
    """Return whether a Range applies: there is no If-Range, or it names this entity tag."""
    return if_range is None or if_range.strip() == etag


def if_match_matches(if_match: Sequence[str], etag: str) -> bool:
    """Return whether a request applies to this entity tag: there is no If-Match, or it names the tag, or is `*`.

    The comparison is strong (RFC 9110, section 13.1.1).
    """
    tags = [tag.strip() for tag in ",".join(if_match).split(",")]
    return not if_match or etag in tags or tags == ["*"]


def if_none_match_matches(if_none_match: Sequence[str], etag: str) -> bool:
    """Return whether the client already has the object with this entity tag, by its If-None-Match headers."""
    tags = entity_tags(if_none_match)
    return etag in tags or "*" in tags


def entity_tags(values: Sequence[str]) -> list[str]:
    """Return the tags of If-None-Match headers, quotation marks included and weak ones as strong ones."""
    return [tag.strip().removeprefix("W/") for tag in ",".join(values).split(",")]


def headers(part: ByteRange, size: int, etag: str, *, partial: bool) -> dict[str, str]:
    """Return the headers of an answer that carries this part of an object of `size` bytes."""
    found = {
        "Content-Type": "application/octet-stream",
        "Content-Length": str(part.end - part.start),
        "Accept-Ranges": "bytes",
        "ETag": etag,
    }
    if partial:
        found["Content-Range"] = f"bytes {part.start}-{part.end - 1}/{size}"
    return found
