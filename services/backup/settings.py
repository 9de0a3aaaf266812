"""The settings of the operator's commands: those of the storage service that say where everything lies."""

from pydantic import Field

from services.storage.settings import MigrationSettings, StorageSettings


class BackupSettings(MigrationSettings):
    """What `python -m services.backup` needs. The user of the database must be a member of all services' roles."""

    storage_url: str = Field(description=StorageSettings.model_fields["storage_url"].description)
