"""Settings of the services that store data in Postgres."""

from pydantic import Field, SecretStr

from services.common.settings import ServiceSettings
from services.database.engine import parse_url


class DatabaseSettings(ServiceSettings):
    """Settings of every command of these services, beside the URL of the database."""

    database_password: SecretStr | None = Field(
        default=None, description="the password of the database's user, where the URL of the database has none"
    )

    def with_password(self, url: SecretStr) -> SecretStr:
        """Return the URL with the password, as `postgresql://...`; unchanged if it has one, or if none is set.

        Raises the errors of `parse_url`.
        """
        parsed = parse_url(url)
        if self.database_password is None or parsed.password is not None:
            return url
        whole = parsed.set(drivername="postgresql", password=self.database_password.get_secret_value())
        return SecretStr(whole.render_as_string(hide_password=False))
