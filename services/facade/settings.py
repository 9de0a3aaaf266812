"""Settings of the facade."""

from pathlib import Path
from typing import Any

from limits import parse
from pydantic import Field, field_validator

from services.common.request_rate import UNLIMITED, parse_request_rate
from services.common.settings import Bytes, LongSecret, Seconds, ServiceSettings
from services.facade.web.http_settings import HttpSettings

_MONTH_SECONDS = 31 * 24 * 3600
_NO_RATE = "none"


class FacadeSettings(HttpSettings, ServiceSettings):
    """The settings that the facade needs beside those of serving HTTP."""

    facade_metrics_listen: str | None = Field(
        default=None, description="where Prometheus reads `/metrics`: `HOST:PORT`, by default nowhere"
    )
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
    signing_key: LongSecret = Field(
        description="what the tokens of actions are signed with, at least 32 characters, the same for all facades",
    )
    signing_key_accepted: LongSecret | None = Field(
        default=None,
        description="a second key, whose tokens are accepted too: the next or the last one while `signing_key` is "
        "changed",
    )
    object_bytes: Bytes = Field(
        default=1024**4, le=2**63 - 1, description="the most bytes of an object to upload; more is that object's 422"
    )
    action_seconds: int = Field(
        default=3_600, ge=60, le=_MONTH_SECONDS, description="how long the action of a batch's answer can be used"
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
        "credentials that the facade knows are never refused. New ones of forges and issuers are not asked about "
        "meanwhile",
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
    anonymous_rate: str = Field(
        default="1200/min",
        description="the requests that an address (of IPv6: a /64) may make without credentials, such as `600/min`, "
        "`10/s` or `1000/h`, counted by each facade alone; those of a minute may be made at once, and more are "
        "answered 429; `none` for no limit. Loopback and `trusted_proxies` are no one's address",
    )
    rpc_seconds: Seconds = Field(
        default=12.0, description="how long an inner service may take to answer, its restart included"
    )

    @property
    def anonymous_requests_per_hour(self) -> int:
        """The requests that an address may make without credentials; 0 for no limit."""
        return UNLIMITED if self.anonymous_rate == _NO_RATE else parse_request_rate(self.anonymous_rate)

    @field_validator("anonymous_rate")
    @classmethod
    def _check_anonymous_rate(cls, value: str) -> str:
        if value != _NO_RATE:
            parse_request_rate(value)
        return value

    @field_validator("failed_logins")
    @classmethod
    def _check_failed_logins(cls, value: Any) -> str:  # noqa: ANN401 - the environment may contain anything
        parse(value)
        return str(value)
