"""The settings of the storage service."""

from pydantic import Field, SecretStr

from services.common.settings import Bytes, Seconds
from services.database.settings import DatabaseSettings


class MigrationSettings(DatabaseSettings):
    """What `python -m services.storage migrate` needs."""

    storage_database_url: SecretStr = Field(
        description="the Postgres of the storage service, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`"
    )

    @property
    def database(self) -> SecretStr:
        """The URL of the database, with the password."""
        return self.with_password(self.storage_database_url)


class StorageSettings(MigrationSettings):
    """What `python -m services.storage` needs."""

    storage_listen: str = Field(description="where the storage service listens: `unix:PATH` or `HOST:PORT`")
    storage_metrics_listen: str | None = Field(
        default=None, description="where Prometheus reads `/metrics`: `HOST:PORT`, by default nowhere"
    )
    storage_url: str = Field(
        description="where the bytes of objects lie: `file:///ABSOLUTE/FOLDER`, or a bucket, `s3://BUCKET/PREFIX`, "
        "`gs://BUCKET/PREFIX` or `az://CONTAINER/PREFIX`"
    )
    storage_reserve_bytes: Bytes = Field(
        default=256 * 1024 * 1024, description="bytes that uploads leave free on the disk"
    )
    storage_bandwidth_limit: Bytes = Field(
        default=0, description="bytes that a repository may move per UTC day, both ways together; 0 for no limit"
    )
    storage_pool_size: int = Field(default=10, ge=1, description="the most connections to Postgres")
    storage_idle_seconds: Seconds = Field(
        default=60.0, description="how long a stream of bytes may be silent before it is cut off"
    )
