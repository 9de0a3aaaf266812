"""Settings of the facade."""

from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from limits import parse
from pydantic import Field, SecretStr, field_validator, model_validator

from services.common.settings import Bytes, Seconds, ServiceSettings
from services.facade.web.trusted_proxies import TrustedProxies

_MONTH_SECONDS = 31 * 24 * 3600


class FacadeSettings(ServiceSettings):
    """The settings that serving HTTP needs."""

    listen: str = Field(
        default="127.0.0.1:8080",
        description="where HTTP is served: `HOST:PORT`, or `fd:N` for a listening socket that the process inherits",
    )
    facade_metrics_listen: str | None = Field(
        default=None, description="where Prometheus reads `/metrics`: `HOST:PORT`, by default nowhere"
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
    storage_address: str = Field(
        description="where the storage service is reached: `unix:PATH`, or `HOST:PORT` for all replicas of that name"
    )
    shared_storage_path: Path | None = Field(
        default=None,
        description="the folder of a storage that keeps its objects on a disk, where this process may read it: "
        "downloads are then sent from there, and not by way of storage",
    )
    shared_memory_path: Path | None = Field(
        default=None,
        description="a folder in memory (tmpfs) that facade and storage share on one host: "
        "large uploads then go through it, and not in messages",
    )
    locks_address: str = Field(
        description="where the lock service is reached: `unix:PATH`, or `HOST:PORT` for all replicas of that name"
    )
    signing_key: SecretStr = Field(
        min_length=32,
        description="what the tokens of actions are signed with, at least 32 characters, the same for all facades",
    )
    signing_key_accepted: SecretStr | None = Field(
        default=None,
        min_length=32,
        description="a second key, whose tokens are accepted too: the next or the last one while `signing_key` is "
        "changed",
    )
    batch_objects: int = Field(default=1_000, ge=1, description="the most objects of one batch; more are answered 413")
    body_bytes: Bytes = Field(
        default=10 * 1024**2,
        description="the most bytes of a JSON body, where less is not too much already (a batch: 160 for each of "
        "`batch_objects`, and 65536; a lock 32768; to verify 4096); more are answered 413",
    )
    object_bytes: Bytes = Field(
        default=1024**4, le=2**63 - 1, description="the most bytes of an object to upload; more is that object's 422"
    )
    action_seconds: int = Field(
        default=3_600, ge=60, le=_MONTH_SECONDS, description="how long the action of a batch's answer can be used"
    )
    documentation_url: str | None = Field(
        default=None, description="where users find help; named in the body of every error"
    )
    realm: str = Field(
        default="Towpath",
        pattern=r'^[^"\\\x00-\x1f\x7f-\U0010ffff]+$',
        description="the realm that a 401 names; users see it when they are asked for a password",
    )
    failed_logins: str = Field(
        default="10/minute",
        description="how many bad credentials an address may show before it gets 429 instead of 401 (403 of "
        "`locks/verify`), counted by all facades together: `10/minute` is ten, and then one every six seconds; good "
        "credentials that the facade knows are never refused",
    )
    failed_logins_queue: int = Field(
        default=64,
        ge=1,
        description="how many requests of an address that has shown so many wait for their turn to have credentials "
        "checked that are not known yet; more are answered 429. Known ones do not wait",
    )
    failed_logins_wait_seconds: Seconds = Field(
        default=10.0, description="how long such a request waits for its turn; then it is answered 429"
    )
    verify_wait_seconds: Seconds = Field(
        default=25.0,
        description="how long a request to verify locks waits for its place where others are answered 429, after which "
        "git-lfs would tell its user to switch the check off; git-lfs waits 30 seconds",
    )
    requests_in_flight: int = Field(
        default=512, ge=1, description="the most requests that one facade serves at once; more are answered 429"
    )
    lock_watches: int = Field(
        default=1_000,
        ge=1,
        description="the most clients that watch the events of locks at one facade, beside `requests_in_flight`; a "
        "quarter of them may be of one address, or of one user; more are answered 429",
    )
    connections: int = Field(
        default=4096,
        ge=1,
        description="the most connections of one facade, fewer where it may open fewer files; at the limit the oldest "
        "one without a request makes room",
    )
    connections_per_address: int = Field(
        default=1024,
        ge=1,
        description="the most connections from one address (of IPv6: one /64) to one facade; trusted proxies have no "
        "such limit",
    )
    head_seconds: Seconds = Field(
        default=20.0,
        description="how long a client may take from the connection, or the first byte, to the end of a request's head",
    )
    requests_per_client: int | None = Field(
        default=None,
        ge=1,
        description="the most requests of one address (in IPv6, of its /64), and of one user, that one facade serves "
        "at once; more are answered 429; by default a quarter of `requests_in_flight`. Loopback and `trusted_proxies` "
        "are no one's address",
    )
    rpc_seconds: Seconds = Field(
        default=12.0, description="how long an inner service may take to answer, its restart included"
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

    @property
    def share_of_watches(self) -> int:
        """The most watches of one address, or of one user, at once."""
        return max(1, self.lock_watches // 4)

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

    @field_validator("failed_logins")
    @classmethod
    def _check_failed_logins(cls, value: Any) -> str:  # noqa: ANN401 - the environment may contain anything
        parse(value)
        return str(value)

    @model_validator(mode="after")
    def _check_https(self) -> Self:
        if (self.https_certificate is None) != (self.https_key is None):
            raise ValueError("https_certificate and https_key: expected both or neither")
        return self
