"""The two dialects of the interface, and the choice between them (docs/protocol.md, "Dialects")."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True)
class Dialect:
    """A media type, and the header in which a 401 names the scheme and the realm."""

    media_type: str
    challenge: str


GENERIC = Dialect("application/vnd.blob+json", "Blob-Authenticate")
GIT_LFS = Dialect("application/vnd.git-lfs+json", "LFS-Authenticate")
DIALECTS = (GENERIC, GIT_LFS)
_DIALECT_TYPES = tuple(dialect.media_type for dialect in DIALECTS)

PLAIN_JSON = "application/json"
HTML = "text/html"
APPENDED = "application/offset+octet-stream"
"""The media type of bytes that continue an upload."""

# "utf8" is not a registered name, but many programs send it.
_UTF_8 = ("utf-8", "utf8")

# Browsers send 150 bytes. A server may ignore an Accept header, and a long one would take long to parse.
_MAX_ACCEPT = 1024
_EVERYTHING = "*/*"

_EXACT, _SUBTYPES, _ANYTHING = 2, 1, 0


def media_type(header: str) -> tuple[str, dict[str, str]]:
    """Return the media type of a Content-Type or of an element of Accept, in lower case, and its parameters."""
    name, *rest = header.split(";")
    parameters = (parameter.partition("=") for parameter in rest)
    return name.strip().lower(), {key.strip().lower(): value.strip().strip('"') for key, _, value in parameters}


def from_content_type(content_type: str | None) -> Dialect | None:
    """Return the dialect whose media type a Content-Type names; None where it names neither or another charset."""
    name = _utf_8_type(content_type)
    return next((dialect for dialect in DIALECTS if dialect.media_type == name), None)


def is_plain_json(content_type: str | None) -> bool:
    """Return whether a Content-Type names JSON without a dialect, in UTF-8."""
    return _utf_8_type(content_type) == PLAIN_JSON


def is_utf_8(content_type: str | None) -> bool:
    """Return whether a Content-Type, or the lack of one, names no other charset than UTF-8."""
    return _utf_8_type(content_type) is not None


def _utf_8_type(content_type: str | None) -> str | None:
    """Return the media type of a Content-Type; None where it names another charset."""
    name, parameters = media_type(content_type or "")
    return name if parameters.get("charset", "utf-8").lower() in _UTF_8 else None


def negotiate(accept: Sequence[str], content_type: str | None) -> Dialect | None:
    """Return the dialect that answers a request with these Accept headers; None where they exclude both.

    Accept decides by weight and then by precision; on a tie the dialect that the Content-Type names is chosen, else the
    neutral dialect.
    """
    ranges = _ranges(accept)
    if not ranges:
        return from_content_type(content_type) or GENERIC
    rated = [(_rating(dialect.media_type, ranges), dialect) for dialect in DIALECTS]
    best = max(rating for rating, _ in rated)
    if best[0] <= 0:
        return None
    acceptable = [dialect for rating, dialect in rated if rating == best]
    preferred = from_content_type(content_type)
    return preferred if preferred in acceptable else acceptable[0]


def admits(accept: Sequence[str], name: str) -> bool:
    """Return whether these Accept headers admit a media type."""
    ranges = _ranges(accept)
    found = (ranges[each] for each in (name, f"{name.partition('/')[0]}/*", _EVERYTHING) if each in ranges)
    return not ranges or next(found, 0.0) > 0


def is_named(accept: Sequence[str]) -> bool:
    """Return whether these Accept headers name the media type of a dialect, and do not just admit it."""
    return not _ranges(accept).keys().isdisjoint(dialect.media_type for dialect in DIALECTS)


def prefers_html(accept: Sequence[str]) -> bool:
    """Return whether these Accept headers name HTML, and prefer it to the dialects and to JSON."""
    ranges = _ranges(accept)
    if not ranges.get(HTML):
        return False
    return (ranges[HTML], _EXACT) > max(_rating(name, ranges) for name in (PLAIN_JSON, *_DIALECT_TYPES))


def for_error(accept: Sequence[str], content_type: str | None) -> Dialect:
    """Return the dialect of an error answer, also for a client that accepts neither dialect."""
    return negotiate(accept, content_type) or from_content_type(content_type) or GENERIC


def _ranges(accept: Sequence[str]) -> Mapping[str, float]:
    """Return the weight of each media range, without malformed ranges; a long list counts as `*/*`."""
    text = ",".join(accept)
    return _parsed(text if len(text) <= _MAX_ACCEPT else _EVERYTHING)


# A request asks several times, and a client's requests have the same header.
@lru_cache(maxsize=256)
def _parsed(accept: str) -> Mapping[str, float]:
    ranges: dict[str, float] = {}
    for element in accept.split(","):
        name, parameters = media_type(element)
        if name.count("/") == 1:
            ranges[name] = max(_weight(parameters.get("q", "1")), ranges.get(name, 0.0))
    return ranges


def _weight(text: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        return 1.0
    return weight if 0.0 <= weight <= 1.0 else 1.0


def _rating(media_type: str, ranges: Mapping[str, float]) -> tuple[float, int]:
    for precision, name in ((_EXACT, media_type), (_SUBTYPES, "application/*"), (_ANYTHING, _EVERYTHING)):
        if name in ranges:
            return ranges[name], precision
    return 0.0, _ANYTHING
