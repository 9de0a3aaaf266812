"""Settings of the cache."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from services.common.addresses import is_loopback
from services.common.settings import LongSecret, Seconds
from services.facade.web.http_settings import HttpSettings

_SecondsOrNone = Annotated[float, Field(ge=0)]


class CacheSettings(HttpSettings):
    """The settings that a cache needs beside those of serving HTTP."""

    cache_upstream: str = Field(
        description="the server that the cache answers for, such as `https://lfs.example.org`, with a path where its "
        "repositories lie under one"
    )
    cache_directory: Path = Field(
        description="the folder in which a cache keeps objects, which no other process uses; `towpath up` takes "
        "`cache` in its data folder"
    )
    cache_bytes: int = Field(
        default=100 * 1000**3,
        ge=1,
        description="the most bytes of objects in `cache_directory`, those on their way included; the ones that nobody "
        "has asked for the longest make room",
    )
    cache_right_seconds: _SecondsOrNone = Field(
        default=60.0,
        description="how long a cache remembers that the upstream lets a caller read an object, and does not ask again "
        "for one that it keeps",
    )
    cache_away_seconds: _SecondsOrNone = Field(
        default=8 * 3600.0,
        description="how long such a right serves for objects that the cache keeps while the upstream is away; 0 for "
        "not at all",
    )
    cache_key: LongSecret | None = Field(
        default=None,
        description="what a cache seals the tokens of its actions with, at least 32 characters, the same for caches "
        "that stand behind one address; by default a random one that it keeps in `cache_directory`",
    )
    cache_ca: Path | None = Field(
        default=None,
        description="a PEM file with the certificates of authorities that a cache trusts in its upstream, beside "
        "those that are trusted anyway",
    )
    cache_plain_http: bool = Field(
        default=False,
        description="whether a cache may send credentials and fetch objects by http:// from another host than its own, "
        "where the upstream itself is http://",
    )
    cache_connect_seconds: Seconds = Field(
        default=5.0, description="how long an upstream may take to accept a connection; longer, and it counts as away"
    )
    cache_read_seconds: Seconds = Field(
        default=25.0,
        description="how long an upstream may send nothing that is waited for, and then counts as away; git-lfs waits "
        "30 seconds",
    )
    cache_fetches: int = Field(
        default=128, ge=1, description="the most objects that a cache fetches from its upstream at once; others wait"
    )
    cache_metrics_listen: str | None = Field(
        default=None, description="where Prometheus reads `/metrics`: `HOST:PORT`, by default nowhere"
    )

    @field_validator("cache_upstream")
    @classmethod
    def _check_upstream(cls, value: str) -> str:
        parts = urlsplit(value)
        is_url = parts.scheme in ("http", "https") and parts.hostname and not parts.username
        if not is_url or parts.query or parts.fragment:
            raise ValueError("expected http(s)://HOST[:PORT][/PATH]")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _check_plain_http(self) -> "CacheSettings":
        parts = urlsplit(self.cache_upstream)
        if parts.scheme == "http" and not self.cache_plain_http and not is_loopback(parts.hostname or ""):
            raise ValueError("cache_upstream: expected https, as cache_plain_http is not set")
        return self
