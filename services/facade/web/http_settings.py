"""Settings of every process that serves HTTP to clients."""

from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from services.common.settings import Bytes, ProcessSettings, Seconds
from services.facade.web.trusted_proxies import TrustedProxies


class HttpSettings(ProcessSettings):
    """The settings that serving HTTP needs."""

    listen: str = Field(
        default="127.0.0.1:8080",
        description="where HTTP is served: `HOST:PORT`, or `fd:N` for a listening socket that the process inherits",
    )
    public_url: str | None = Field(
        default=None,
        description="the address under which clients reach the facade, such as `https://lfs.example.org`, with a path "
        "where a proxy puts it under one; by default what each request names as its host",
    )
    trusted_proxies: str | None = Field(
        default=None,
        description="the proxies before the facade, as comma-separated addresses, CIDRs or host names, which are "
        "looked up every two seconds: their X-Forwarded-For, -Proto, -Host and -Prefix are believed, and their "
        "X-Request-Id marks a repeated request",
    )
    https_certificate: Path | None = Field(
        default=None,
        description="a PEM file with the certificate and what leads to its authority, to serve HTTPS; "
        "renewed files are seen within a minute",
    )
    https_key: Path | None = Field(default=None, description="the PEM file of that certificate's key")
    body_bytes: Bytes = Field(
        default=10 * 1024**2,
        description="the most bytes of a JSON body, where less is not too much already (a batch: 160 for each of "
        "`batch_objects`, and 65536; a lock 32768; to verify 4096); more are answered 413",
    )
    batch_objects: int = Field(default=1_000, ge=1, description="the most objects of one batch; more are answered 413")
    documentation_url: str | None = Field(
        default=None, description="where users find help; named in the body of every error"
    )
    verify_wait_seconds: Seconds = Field(
        default=25.0,
        description="how long a request to verify locks waits for its place where others are answered 429, after which "
        "git-lfs would tell its user to switch the check off; git-lfs waits 30 seconds",
    )
    requests_in_flight: int = Field(
        default=512, ge=1, description="the most requests that one process serves at once; more are answered 429"
    )
    connections: int = Field(
        default=4096,
        ge=1,
        description="the most connections of one process, fewer where it may open fewer files; at the limit the oldest "
        "one without a request makes room",
    )
    connections_per_address: int = Field(
        default=1024,
        ge=1,
        description="the most connections from one address (of IPv6: one /64) to one process; trusted proxies have no "
        "such limit",
    )
    head_seconds: Seconds = Field(
        default=20.0,
        description="how long a client may take from the connection, or the first byte, to the end of a request's head",
    )
    head_bytes: Bytes = Field(
        default=16 * 1024, description="the most bytes of a request's target and headers; more are answered 431"
    )
    head_fields: int = Field(default=100, ge=1, description="the most headers of a request; more are answered 431")
    requests_per_client: int | None = Field(
        default=None,
        ge=1,
        description="the most requests of one address (in IPv6, of its /64), and of one user, that one process "
        "serves at once; more are answered 429; by default a quarter of `requests_in_flight`. Loopback and "
        "`trusted_proxies` are no one's address",
    )
    lock_watches: int = Field(
        default=1_000,
        ge=1,
        description="the most clients that watch the events of locks at one process, beside `requests_in_flight`; a "
        "quarter of them may be of one address, or of one user, and a tenth of clients without credentials, a quarter "
        "of which may be of one address; more are answered 429",
    )
    body_idle_seconds: Seconds = Field(
        default=45.0,
        description="how long a client may be silent within an upload, or not read what it asked for; "
        "less than `storage_idle_seconds`",
    )
    json_body_seconds: Seconds = Field(
        default=10.0, description="how long a client may take to send a JSON body; longer is answered 408"
    )
    upload_min_bytes_per_second: int = Field(
        default=1_024,
        ge=0,
        description="how fast an upload must come, on average over each `body_idle_seconds` in which it is waited "
        "for; slower is answered 408",
    )

    @property
    def share_of_requests(self) -> int:
        """The most requests of one address, or of one user, at once."""
        return self.requests_per_client or max(1, self.requests_in_flight // 4)

    @field_validator("public_url")
    @classmethod
    def _check_public_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise ValueError("expected http(s)://HOST[:PORT][/PATH]")
        return value.rstrip("/")

    @field_validator("trusted_proxies")
    @classmethod
    def _check_trusted_proxies(cls, value: str | None) -> str | None:
        TrustedProxies(value or "")
        return value

    @model_validator(mode="after")
    def _check_https(self) -> Self:
        if (self.https_certificate is None) != (self.https_key is None):
            raise ValueError("https_certificate and https_key: expected both or neither")
        return self
