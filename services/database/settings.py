"""Settings of the services that store data in Postgres."""

from pydantic import Field, SecretStr

from services.common.settings import ServiceSettings
from services.database.url import DatabaseUrl


class DatabaseSettings(ServiceSettings):
    """Settings of every command of these services, beside the URL of the database."""

    database_password: SecretStr | None = Field(
        default=None, description="the password of the database's user, where the URL of the database has none"
    )

    def with_password(self, url: SecretStr) -> SecretStr:
        """Return the URL with the password that is set, if it has none.

        Raises the errors of `DatabaseUrl.parse`.
        """
        parsed = DatabaseUrl.parse(url)
        return url if self.database_password is None else parsed.with_password(self.database_password).render()
