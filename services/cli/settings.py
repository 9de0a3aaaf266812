"""Settings of the `towpath` command, in addition to its options."""

from pathlib import Path
from typing import Self

from pydantic import Field, SecretStr

from services.cli.errors import CommandError
from services.common.failure import reason_of
from services.common.settings import TlsSettings


class CommandSettings(TlsSettings):
    """Settings that all commands but `towpath up` read from the environment and from secret files."""

    data: Path = Field(default=Path("var"), description="the data folder of a `towpath up` on this host")
    user: str | None = Field(
        default=None,
        description="the account that `towpath up` and Postgres run as where they are started as root; by default the "
        "owner of the data folder, or the account `towpath`, which is made",
    )
    hang_seconds: float = Field(
        default=10.0,
        ge=0,
        description="how long a process of `towpath up` may show no sign of life before it is killed and started "
        "again; 0 for as long as it likes",
    )
    server: str | None = Field(
        default=None,
        description="the lock service that the administration commands talk to, as `HOST:PORT`, `dns:///NAME:PORT` or "
        "`unix:PATH`, instead of the one of a data folder",
    )
    token: SecretStr | None = Field(
        default=None, description="the token of the administrator for `server`; by default `admin_token`"
    )
    admin_token: SecretStr | None = Field(default=None, description="see the lock service")
    database_url: SecretStr | None = Field(
        default=None,
        description="the database of storage and locks, `postgresql://USER:PASSWORD@HOST:PORT/DATABASE`",
    )

    @classmethod
    def read(cls) -> Self:
        """Read the settings. Raises a `CommandError` that names the variable if a value is invalid."""
        try:
            return cls()
        except ValueError as error:
            raise CommandError(reason_of(error)) from error
