"""URLs of object stores. Credentials are never part of such a URL."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

_BUCKET = re.compile(r"[a-z0-9][a-z0-9._-]{1,220}[a-z0-9]", re.IGNORECASE)
_SEGMENT = re.compile(r"[A-Za-z0-9!_.'()-]{1,200}")
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9a-fA-F:.]+\])(:[0-9]{1,5})?")
_REGION = re.compile(r"[A-Za-z0-9-]{1,64}")
_ACCOUNT = re.compile(r"[a-z0-9]{3,24}")

Addressing: TypeAlias = Literal["path", "virtual"]


@dataclass(frozen=True)
class S3Location:
    """`s3://BUCKET[/PREFIX][?endpoint=URL&region=REGION&addressing=path|virtual&public_endpoint=URL]`."""

    bucket: str
    prefix: str
    endpoint: str | None
    region: str | None
    addressing: Addressing
    public_endpoint: str | None = None


@dataclass(frozen=True)
class GcsLocation:
    """`gs://BUCKET[/PREFIX][?endpoint=URL&public_endpoint=URL]`."""

    bucket: str
    prefix: str
    endpoint: str | None
    public_endpoint: str | None = None


@dataclass(frozen=True)
class AzureLocation:
    """`az://CONTAINER[/PREFIX][?account=ACCOUNT&endpoint=URL&public_endpoint=URL]`."""

    container: str
    prefix: str
    account: str | None
    endpoint: str | None
    public_endpoint: str | None = None


Location: TypeAlias = S3Location | GcsLocation | AzureLocation

_KEYS = {
    "s3": {"endpoint", "region", "addressing", "public_endpoint"},
    "gs": {"endpoint", "public_endpoint"},
    "az": {"account", "endpoint", "public_endpoint"},
}

SCHEMES = frozenset(_KEYS)
"""The schemes of the URLs of object stores."""


def parse(url: str) -> Location:
    """Return the location that a URL denotes.

    Raises ValueError, whose text says what was expected and repeats no part of the URL.
    """
    parts = _split(url)
    if parts is None or parts.scheme not in SCHEMES:
        raise ValueError("storage_url: expected s3://, gs:// or az://, and the name of a bucket or container")
    if "@" in parts.netloc:
        raise ValueError("storage_url: expected no credentials; they come from the environment, files or roles")
    if parts.fragment:
        raise ValueError("storage_url: expected nothing after #")
    bucket = parts.netloc
    if not _BUCKET.fullmatch(bucket):
        raise ValueError(f"storage_url: expected the name of a bucket or container after {parts.scheme}://")
    prefix = _prefix(parts.path)
    query = _query(parts.scheme, parts.query)
    endpoint, public = (
        None if (given := query.get(name)) is None else parse_endpoint(f"storage_url: {name}", given)
        for name in ("endpoint", "public_endpoint")
    )
    if parts.scheme == "gs":
        return GcsLocation(bucket, prefix, endpoint, public)
    if parts.scheme == "az":
        account = _matching(_ACCOUNT, query.get("account"), "account=, 3 to 24 lower-case letters and digits")
        return AzureLocation(bucket, prefix, account, endpoint, public)
    region = _matching(_REGION, query.get("region"), "region=, letters, digits and dashes")
    addressing = _addressing(query.get("addressing"), bucket, endpoint)
    return S3Location(bucket, prefix, endpoint, region, addressing, public)


def _split(url: str) -> SplitResult | None:
    try:
        return urlsplit(url)
    except ValueError:
        # The text of this error repeats a part of the URL.
        return None


def _prefix(path: str) -> str:
    prefix = unquote(path).strip("/")
    if prefix and not all(_SEGMENT.fullmatch(part) and part not in (".", "..") for part in prefix.split("/")):
        raise ValueError("storage_url: prefix: expected segments of letters, digits and !_.'()- between slashes")
    return prefix


def _query(scheme: str, text: str) -> dict[str, str]:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, strict_parsing=True) if text else []
    except ValueError:
        pairs = [("", "")]
    expected = _KEYS[scheme]
    found = dict(pairs)
    if len(found) != len(pairs) or not found.keys() <= expected:
        names = ", ".join(sorted(expected))
        raise ValueError(f"storage_url: {scheme}: expected each of {names} at most once after ?, and nothing else")
    return found


def parse_endpoint(name: str, url: str) -> str:
    """Return the endpoint of a store.

    Raises ValueError, whose text begins with `name` and repeats no part of the URL.
    """
    parts = _split(url)
    if (
        parts is None
        or parts.scheme not in ("http", "https")
        or not _HOST.fullmatch(parts.netloc)
        or parts.query
        or parts.fragment
    ):
        raise ValueError(f"{name}: expected http(s)://HOST[:PORT][/PATH], without credentials")
    return url.rstrip("/")


def _matching(pattern: re.Pattern[str], value: str | None, expected: str) -> str | None:
    if value is not None and not pattern.fullmatch(value):
        raise ValueError(f"storage_url: expected {expected}")
    return value


def _addressing(value: str | None, bucket: str, endpoint: str | None) -> Addressing:
    if value is None:
        # No certificate of AWS matches a host name with additional dots, and few other stores have a host per bucket.
        return "path" if endpoint or "." in bucket else "virtual"
    if value == "path":
        return "path"
    if value == "virtual":
        return "virtual"
    raise ValueError("storage_url: addressing: expected path or virtual")
