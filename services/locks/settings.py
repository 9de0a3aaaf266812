"""Settings of the lock service."""

import re
from typing import Annotated, Self

from pydantic import Field, SecretStr, field_validator, model_validator

from services.common.request_rate import UNLIMITED, parse_request_rate
from services.common.settings import LongSecret, Seconds, Secret
from services.database.settings import DatabaseSettings

# A page of the longest paths must fit into one gRPC message; one path, the detail of a conflict, into gRPC's trailers.
_MAX_LOCKS_PER_PAGE = 3_000
_MAX_PATH_BYTES = 4_096

_VISIBLE = re.compile(r"[!-~]*")

PageSize = Annotated[int, Field(ge=1, le=_MAX_LOCKS_PER_PAGE)]


class LocksDatabaseSettings(DatabaseSettings):
    """Settings of every command of the lock service."""

    locks_database_url: SecretStr = Field(
        description="the database that keeps locks and access, as postgresql://USER:PASSWORD@HOST:PORT/DATABASE"
    )

    @property
    def database(self) -> SecretStr:
        """The URL of the database, with the password."""
        return self.with_password(self.locks_database_url)


class BootstrapSettings(LocksDatabaseSettings):
    """Settings of the command `bootstrap`."""

    admin_token: LongSecret | None = Field(
        default=None,
        description="the token of the administrator that `towpath migrate` makes, at least 32 characters; "
        "a changed one takes the place of the earlier one",
    )

    @field_validator("admin_token")
    @classmethod
    def _check_admin_token(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not _VISIBLE.fullmatch(value.get_secret_value()):
            raise ValueError("expected visible ASCII characters, which every client can send")
        return value


class LocksSettings(LocksDatabaseSettings):
    """Settings of the command `serve`."""

    locks_listen: str = Field(description="where the lock service listens: `unix:PATH` or `HOST:PORT`")
    locks_metrics_listen: str | None = Field(
        default=None, description="where Prometheus reads `/metrics`: `HOST:PORT`, by default nowhere"
    )
    locks_pool_size: int = Field(default=10, ge=1, description="the most connections to Postgres of one lock service")
    storage_address: str = Field(
        description="where the storage service is reached: `unix:PATH`, or `HOST:PORT` for all replicas of that name"
    )
    storage_admin_secret: Secret | None = Field(
        default=None,
        description="what the lock service shows the storage service for administration, beside `service_secret`, at "
        "least 16 characters; no other service has it",
    )
    ssh_secret: Secret | None = Field(
        default=None,
        description="the secret by which the SSH service gets the tokens of sessions, beside `service_secret`, at "
        "least 16 characters; `towpath up` makes one at each start",
    )
    ssh_secret_accepted: Secret | None = Field(
        default=None,
        description="a second one that is accepted too: the next or the last one while `ssh_secret` is changed",
    )
    lock_page_default: PageSize = Field(default=100, description="locks on a page when the request names no limit")
    lock_page_max: PageSize = Field(
        default=1_000,
        description="the most locks on a page, of which one of the history never has more than 100; a larger limit is "
        "coerced",
    )
    lock_path_bytes: int = Field(
        default=_MAX_PATH_BYTES,
        ge=1,
        le=_MAX_PATH_BYTES,
        description="the longest path of a lock, in UTF-8 bytes",
    )
    lock_page_bytes: int = Field(
        default=256 * 1024,
        ge=_MAX_PATH_BYTES,
        description="the most bytes that the paths, notes and spaces on a page of locks have together; other locks are "
        "on the next page",
    )
    locks_per_repository: int = Field(
        default=100_000, ge=1, description="the most locks that stand in a repository; more are answered 403"
    )
    locks_per_user: int = Field(
        default=50_000, ge=1, description="the most locks that a user holds in a repository; more are answered 403"
    )

    repository_bin_days: int = Field(
        default=30,
        ge=0,
        le=3650,
        description="the days for which a removed repository stays in the bin, from where it can be restored; with 0 "
        "it is removed at once, for good",
    )
    alias_days: int = Field(
        default=90,
        ge=0,
        le=3650,
        description="the days for which the earlier name of a renamed repository leads clients to it, unless another "
        "repository takes the name; 0 for none",
    )
    request_rate: str | None = Field(
        default=None,
        description="the requests that every user may make who has no limit, and no group with one, such as `600/min`, "
        "`10/s` or `1000/h`, counted by all facades together; more are answered 429. By default there is no limit",
    )
    forge_granted_seconds: Seconds = Field(
        default=60.0,
        le=3_600,
        description="how long a role that a forge has reported counts before the forge is asked again: what is taken "
        "away there ends here after this time at most, if the forge answers",
    )
    forge_refused_seconds: Seconds = Field(
        default=10.0,
        le=3_600,
        description="how long a credential that a forge has refused is refused without a look-up",
    )
    forge_stale_seconds: float = Field(
        default=900.0,
        ge=0,
        le=7 * 24 * 3600,
        description="how much longer a role counts while its forge does not answer, or is throttled",
    )
    forge_lookups_per_minute: int = Field(
        default=600,
        ge=4,
        description="the most look-ups at each forge in a minute, of all lock services together; a quarter of them are "
        "for credentials that the forge has not accepted before, and an eighth of that quarter for those from one "
        "address",
    )
    forge_lookup_seconds: Seconds = Field(default=5.0, le=10, description="how long a forge may take for a look-up")
    issuer_stale_seconds: int = Field(
        default=21_600,
        ge=0,
        le=604_800,
        description="how long the keys of an issuer of JSON Web Tokens count after they were read last, while they "
        "cannot be read again; then its tokens that are not known yet are answered 503",
    )
    sign_in_seconds: int = Field(
        default=3_600, ge=60, le=3_600, description="how long a token is valid that was given for a JSON Web Token"
    )
    locks_audit_days: int = Field(
        default=400,
        ge=0,
        description="the days for which the audit log is kept at least: a month is dropped when all of it is older; "
        "0 keeps it for ever",
    )

    @property
    def requests_per_hour(self) -> int:
        """The limit of users that have none; 0 for no limit."""
        return UNLIMITED if self.request_rate is None else parse_request_rate(self.request_rate)

    @field_validator("request_rate")
    @classmethod
    def _check_request_rate(cls, value: str | None) -> str | None:
        if value is not None:
            parse_request_rate(value)
        return value

    @model_validator(mode="after")
    def _check_pages(self) -> Self:
        if self.lock_page_default > self.lock_page_max:
            raise ValueError("lock_page_default: expected at most lock_page_max")
        return self

    def page_size(self, limit: int) -> int:
        """Return the number of locks on a page for a request with `limit`; 0 or less asks for the default."""
        return min(limit, self.lock_page_max) if limit > 0 else self.lock_page_default
