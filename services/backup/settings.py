"""Settings of the operator's commands: the storage service's settings for the database and the storage."""

from pydantic import Field

from services.storage.settings import MigrationSettings, StorageSettings


class BackupSettings(MigrationSettings):
    """Settings of `python -m services.backup`. The user of the database must be a member of all services' roles."""

    storage_url: str = Field(description=StorageSettings.model_fields["storage_url"].description)
