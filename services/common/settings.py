"""Settings. Each process reads its environment and its secret files once, in its main function."""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SecretsSettingsSource,
    SettingsConfigDict,
    SettingsError,
)

from services.common.observability.logs import LogFormat
from services.common.rpc.tls import FILES, Tls
from services.common.secret_files import secrets_folder, value_of

Seconds = Annotated[float, Field(gt=0)]
Bytes = Annotated[int, Field(ge=0)]


def _of_at_least(characters: int) -> AfterValidator:
    def check(value: SecretStr) -> SecretStr:
        if len(value.get_secret_value()) < characters:
            raise ValueError(f"expected at least {characters} characters")
        return value

    return AfterValidator(check)


Secret = Annotated[SecretStr, _of_at_least(16)]
"""A secret that programs show each other."""

LongSecret = Annotated[SecretStr, _of_at_least(32)]
"""A secret that things are signed with, or that gives everything."""


class _SecretFiles(SecretsSettingsSource):
    """A source of settings: the files of the secrets folder, if it exists."""

    def __call__(self) -> dict[str, Any]:
        if not Path(str(self.secrets_dir)).is_dir():
            return {}
        try:
            found = super().__call__()
        except SettingsError as error:
            # Add the cause, such as missing permission to read a file: the message alone names only the field.
            raise SettingsError(f"{error}: {error.__cause__}") from error
        folder = Path(str(self.secrets_dir))
        return {name: value_of(folder / f"towpath_{name}", value) for name, value in found.items() if value}


class Settings(BaseSettings):
    """The base class of all settings, with the sources of their values.

    The environment variable of a field is `TOWPATH_` and the field's name in capitals; an empty variable counts as
    absent. Without the variable, the value is the text of the file `towpath_` and the field's name in the folder
    `TOWPATH_SECRETS_DIR`, by default /run/secrets, without surrounding white space; for a certificate or key in PEM, it
    is the path of that file. Errors never repeat a value.
    """

    model_config = SettingsConfigDict(
        env_prefix="TOWPATH_", env_ignore_empty=True, extra="ignore", frozen=True, hide_input_in_errors=True
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - none is read
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003 - ours takes its place
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources in order of precedence."""
        return init_settings, env_settings, _SecretFiles(settings_cls, secrets_dir=secrets_folder())


class TlsSettings(Settings):
    """Settings of processes that use gRPC over a network."""

    tls_certificate: Path | None = Field(
        default=None,
        description="a PEM file with the certificate that this process shows on internal gRPC over TCP, and its chain; "
        "with `tls_key` and `tls_ca`: mutual TLS",
    )
    tls_key: Path | None = Field(default=None, description="a PEM file with the key of `tls_certificate`")
    tls_ca: Path | None = Field(
        default=None,
        description="a PEM file with the certificate of the authority whose certificates the services accept",
    )

    def read_tls(self) -> Tls | None:
        """Read the files; return None if none is named. Raises the errors of `Tls.read`."""
        return Tls.read({name: getattr(self, name) for name in FILES})


class ProcessSettings(Settings):
    """Settings of every process that goes on until it is stopped."""

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="the least severe log lines that are written"
    )
    log_format: LogFormat = Field(default=LogFormat.JSON, description="`json`, or `text` for a terminal")
    traces_endpoint: str | None = Field(
        default=None,
        pattern=r"^https?://\S+$",
        description="where spans are sent, OTLP over gRPC, such as `http://collector:4317`; by default nowhere; "
        "needs the packages of `towpath[tracing]`",
    )
    metrics_token: Secret | None = Field(
        default=None,
        description="what a scraper shows as bearer token to read metrics, at least 16 characters; "
        "needed where metrics are served at an address that other hosts can reach",
    )
    drain_seconds: Seconds = Field(
        default=5.0, description="how long what runs may go on after SIGTERM before it is cut off"
    )
    lifeline_fd: int | None = Field(
        default=None,
        description="a file descriptor that `towpath up` keeps open; the process stops when it closes",
    )
    heartbeat_fd: int | None = Field(
        default=None,
        description="a file descriptor that the process writes a byte to each half second, by which `towpath up` knows "
        "that it does not hang",
    )


class ServiceSettings(TlsSettings, ProcessSettings):
    """Settings of every service that calls or answers others."""

    service_secret: Secret | None = Field(
        default=None,
        description="what the services show each other on every internal call, at least 16 characters; "
        "needed where an internal address is not a unix socket",
    )
    service_secret_accepted: Secret | None = Field(
        default=None,
        description="a second secret that is accepted too: the next or the last one while `service_secret` is changed",
    )
