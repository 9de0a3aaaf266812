"""Settings of those who keep something in Postgres."""

from pydantic import Field, SecretStr

from services.common.settings import ServiceSettings
from services.database.engine import parse_url


class DatabaseSettings(ServiceSettings):
    """What every command of such a service needs beside the URL of its database."""

    database_password: SecretStr | None = Field(
        default=None, description="the password of the database's user, where the URL of the database has none"
    )

    def with_password(self, url: SecretStr) -> SecretStr:
        """Return the URL with the password, as `postgresql://...`; it is the same where it has one or none is set.

        Raises what `parse_url` raises.
        """
        parsed = parse_url(url)
        if self.database_password is None or parsed.password is not None:
            return url
        whole = parsed.set(drivername="postgresql", password=self.database_password.get_secret_value())
        return SecretStr(whole.render_as_string(hide_password=False))
