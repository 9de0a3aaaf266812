"""What the settings of all services share. Each process reads the environment once, in its main function."""

from typing import Annotated, Literal

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings, SettingsConfigDict

from services.common.logs import LogFormat

Seconds = Annotated[float, Field(gt=0)]
Bytes = Annotated[int, Field(ge=0)]


class ServiceSettings(BaseSettings):
    """Settings of every process; the environment variable of a field is `TOWPATH_` and its name in capitals."""

    model_config = SettingsConfigDict(env_prefix="TOWPATH_", extra="ignore", frozen=True, hide_input_in_errors=True)

    log_level: Literal["DEBUG", "INFO", "WARNING", "ERROR"] = Field(
        default="INFO", description="the least severe log lines that are written"
    )
    log_format: LogFormat = Field(default=LogFormat.JSON, description="`json`, or `text` for a terminal")
    service_secret: SecretStr | None = Field(
        default=None,
        description="what the services show each other on every internal call; "
        "needed where an internal address is not a unix socket",
    )
    drain_seconds: Seconds = Field(
        default=5.0, description="how long what runs may go on after SIGTERM before it is cut off"
    )
    lifeline_fd: int | None = Field(
        default=None,
        description="a file descriptor that `towpath up` keeps open; the process stops when it closes",
    )
