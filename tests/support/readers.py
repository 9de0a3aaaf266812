"""The settings that each service of compose.yaml and of the Helm chart reads."""

from pydantic.fields import FieldInfo

from services.cache.settings import CacheSettings
from services.cli.settings import CommandSettings
from services.common.settings import Settings
from services.facade.settings import FacadeSettings
from services.locks.settings import LocksDatabaseSettings, LocksSettings
from services.ssh.settings import SshSettings
from services.storage.settings import StorageSettings

READERS: dict[str, tuple[type[Settings], ...]] = {
    # It runs the migrations of the services, with the database's URL for theirs.
    "migrate": (CommandSettings, LocksDatabaseSettings),
    # Whoever takes over storage has no token of an administrator: commands are given in `locks`.
    "storage": (StorageSettings,),
    "locks": (LocksSettings, CommandSettings),
    "facade": (FacadeSettings,),
    "ssh": (SshSettings,),
    "cache": (CacheSettings,),
}


def fields(service: str) -> dict[str, FieldInfo]:
    """Return the settings that the programs of a service read, by the variables of the environment."""
    read = (reader.model_fields for reader in READERS[service])
    return {f"TOWPATH_{name.upper()}": field for settings in read for name, field in settings.items()}


def is_secret(field: FieldInfo) -> bool:
    """Return whether a setting is kept out of logs."""
    return "SecretStr" in str(field.annotation)
