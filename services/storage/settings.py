"""The settings of the storage service."""

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field, SecretStr, field_validator

from services.common.settings import Bytes, Seconds, Secret
from services.database.settings import DatabaseSettings
from services.storage.stores.transfer_modes import parse


class MigrationSettings(DatabaseSettings):
    """The settings of `python -m services.storage migrate`."""

    storage_database_url: SecretStr = Field(
        description="the Postgres of the storage service, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`"
    )

    @property
    def database(self) -> SecretStr:
        """The URL of the database, with the password."""
        return self.with_password(self.storage_database_url)


class StorageSettings(MigrationSettings):
    """The settings of `python -m services.storage`."""

    storage_listen: str = Field(description="where the storage service listens: `unix:PATH` or `HOST:PORT`")
    storage_metrics_listen: str | None = Field(
        default=None, description="where Prometheus reads `/metrics`: `HOST:PORT`, by default nowhere"
    )
    storage_url: str = Field(
        description="where the bytes of objects lie: `file:///ABSOLUTE/FOLDER`, or a bucket, `s3://BUCKET/PREFIX`, "
        "`gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`"
    )
    storage_admin_secret: Secret | None = Field(
        default=None,
        description="what the lock service shows the storage service for administration, beside `service_secret`, at "
        "least 16 characters; no other service has it",
    )
    storage_admin_secret_accepted: Secret | None = Field(
        default=None,
        description="a second one that is accepted too: the next or the last one while `storage_admin_secret` is "
        "changed",
    )
    storage_folders: str = Field(
        default="",
        description="folders, with `:` between them, below which `towpath storage add` may put stores of "
        "`file:///FOLDER`; by default none",
    )
    storage_transfer: str = Field(
        default="auto",
        description="how bytes go between clients and an object store: `relay` through Towpath, `direct` by signed "
        "addresses of the store, `auto` directly where clients can reach it; or each direction by itself, such as "
        "`download=direct,upload=relay`",
    )
    storage_public_endpoint: str | None = Field(
        default=None,
        description="the address under which clients reach the object store, such as `https://s3.example.org`; "
        "by default that of `storage_url`",
    )
    storage_reserve_bytes: Bytes = Field(
        default=256 * 1024 * 1024, description="bytes that uploads leave free on the disk"
    )
    storage_quota: Bytes = Field(
        default=0,
        description="bytes that a repository may hold, unless `towpath repo update --quota` gives it another quota; 0 "
        "for any number",
    )
    storage_user_quota: Bytes = Field(
        default=0,
        description="bytes of the objects that a user may bring, in all repositories together, unless `towpath user "
        "update --quota` or a group gives another quota; 0 for any number",
    )
    storage_bandwidth_limit: Bytes = Field(
        default=0,
        description="bytes that a repository may move per UTC day, both ways together, unless `towpath repo update "
        "--bandwidth` gives it another limit; 0 for no limit",
    )
    storage_bin_days: float = Field(
        default=30.0,
        ge=0,
        le=36_500,
        allow_inf_nan=False,
        description="how long the bytes of a removed object stay in the bin, from which `towpath object undelete` "
        "brings them back; 0 for not at all",
    )
    storage_partial_upload_days: float = Field(
        default=7.0,
        ge=0,
        le=3650,
        allow_inf_nan=False,
        description="how long the bytes of an upload that broke off are kept after the last of them, so that a client "
        "with `lfs.tustransfers` goes on where it ended; 0 for not at all: such a client then uploads like others",
    )
    storage_scrub_days: float = Field(
        default=30.0,
        ge=0,
        le=3650,
        allow_inf_nan=False,
        description="all bytes in every store are read back and compared with their SHA-256 within so many days; 0 for "
        "never",
    )
    storage_scrub_rate: int | None = Field(
        default=None,
        ge=1,
        description="the most bytes a second of one store that are read for that; by default twice what the days need, "
        "and at least 1 MiB",
    )
    storage_verify_reads: Literal["always", "sample", "never"] = Field(
        default="never",
        description="which whole downloads through Towpath are compared with their SHA-256 on the way, and cut off "
        "before their end if they are not right: `always`, `sample` for one of sixteen, or `never`; those of a shared "
        "disk go through the storage service then",
    )
    # Four are held: the lease, the notifications, and for the time of a turn those of the scrubber and the copier.
    storage_pool_size: int = Field(default=10, ge=6, description="the most connections to Postgres, at least 6")
    storage_idle_seconds: Seconds = Field(
        default=60.0, description="how long a stream of bytes may be silent before it is cut off"
    )
    shared_memory_path: Path | None = Field(
        default=None,
        description="a folder in memory (tmpfs) that facade and storage share on one host: "
        "large uploads then go through it, and not in messages",
    )

    @property
    def folders(self) -> Sequence[Path]:
        """The folders of `storage_folders`."""
        return [Path(folder) for folder in self.storage_folders.split(":") if folder]

    @field_validator("storage_folders")
    @classmethod
    def _check_folders(cls, value: str) -> str:
        if not all(Path(folder).is_absolute() for folder in value.split(":") if folder):
            raise ValueError("expected absolute paths, with : between them")
        return value

    @field_validator("storage_transfer")
    @classmethod
    def _check_transfer(cls, value: str) -> str:
        parse(value)
        return value
