"""Settings of the `towpath` command, in addition to its options."""

from pathlib import Path
from typing import Literal, Self

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
    repository: str | None = Field(
        default=None,
        description="the repository of `towpath hook pre-receive` and `post-receive`; by default the one that the git "
        "server tells, see [push-hooks.md](push-hooks.md)",
    )
    pusher: str | None = Field(
        default=None,
        description="the user who pushes, for these hooks, where the git server does not tell it",
    )
    user_map: Path | None = Field(
        default=None,
        description="a file with lines `NAME = USER`, for these hooks: the users by their names at the git server",
    )
    pusher_from: str | None = Field(
        default=None,
        description="where the users have come from that the git server names to these hooks, such as `issuer sso`; by "
        "default from the forge that the repository is tied to, or else they are those that an administrator has added",
    )
    hook_on_failure: Literal["refuse", "allow"] = Field(
        default="refuse", description="what these hooks do with a push while Towpath does not answer"
    )
    conformance_password: SecretStr | None = Field(
        default=None, description="the password or token of the user of `towpath conformance`"
    )
    conformance_second_password: SecretStr | None = Field(
        default=None, description="that of its second user, see [conformance.md](conformance.md)"
    )

    @classmethod
    def read(cls) -> Self:
        """Read the settings. Raises a `CommandError` that names the variable if a value is invalid."""
        try:
            return cls()
        except ValueError as error:
            raise CommandError(reason_of(error)) from error
