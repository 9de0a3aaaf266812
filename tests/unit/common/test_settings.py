"""Sources of settings: the environment, and the files of the secrets folder."""

from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError
from pydantic_settings import SettingsError

from services.cache.settings import CacheSettings
from services.common.failure import reason_of
from services.common.settings import ServiceSettings, Settings
from services.facade.settings import FacadeSettings
from services.locks.settings import BootstrapSettings, LocksDatabaseSettings, LocksSettings
from services.ssh.settings import SshSettings
from services.storage.settings import MigrationSettings, StorageSettings

KEY = "a key of at least thirty-two characters"


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty secrets folder."""
    monkeypatch.setenv("TOWPATH_SECRETS_DIR", str(tmp_path))
    return tmp_path


def facade() -> FacadeSettings:
    """Those of a facade, of which the signing key is left to be found."""
    return FacadeSettings(storage_address="unix:/s", locks_address="unix:/l")


def test_a_file_gives_a_setting(secrets: Path) -> None:
    """A file named after the variable holds the value, and the line's end is not part of it."""
    (secrets / "towpath_signing_key").write_text(f"{KEY}\n")
    (secrets / "towpath_batch_objects").write_text("7")
    assert facade().signing_key.get_secret_value() == KEY
    assert facade().batch_objects == 7


def test_a_key_in_a_secret_file_stands_for_its_path(secrets: Path) -> None:
    """The settings of certificates are paths, and what is in a key does not end up in a message."""
    key = secrets / "towpath_tls_key"
    key.write_text("-----BEGIN PRIVATE KEY-----\nhush\n-----END PRIVATE KEY-----\n")
    (secrets / "towpath_tls_ca").write_text("/etc/ca.pem\n")
    settings = ServiceSettings()
    assert (settings.tls_key, settings.tls_ca) == (key, Path("/etc/ca.pem"))


def test_the_environment_wins(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A variable is taken before the file; an empty one, as compose gives for what is not set, is none."""
    (secrets / "towpath_service_secret").write_text("the secret of the file")
    monkeypatch.setenv("TOWPATH_SERVICE_SECRET", "the secret of the environment")
    assert ServiceSettings().service_secret == SecretStr("the secret of the environment")
    monkeypatch.setenv("TOWPATH_SERVICE_SECRET", "")
    assert ServiceSettings().service_secret == SecretStr("the secret of the file")


def test_an_empty_secret_is_none(secrets: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty secret counts as none, because it would be known to everybody (trap-29)."""
    monkeypatch.setenv("TOWPATH_SERVICE_SECRET", "")
    (secrets / "towpath_service_secret").write_text("\n")
    assert ServiceSettings().service_secret is None


def test_a_folder_that_is_not_there(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing is said of a missing folder: most have none."""
    monkeypatch.setenv("TOWPATH_SECRETS_DIR", str(tmp_path / "none"))
    assert ServiceSettings().service_secret is None


def test_a_file_that_cannot_be_read_is_named(secrets: Path) -> None:
    """An operator learns of which setting it is, and why."""
    (secrets / "towpath_service_secret").write_bytes(b"\xff\xfe")
    with pytest.raises(SettingsError, match=r"service_secret.*can't decode"):
        ServiceSettings()


def test_errors_repeat_no_secret(secrets: Path) -> None:
    """An error about a wrong value may be logged, so it must not contain the value."""
    (secrets / "towpath_signing_key").write_text("hush")
    with pytest.raises(ValidationError, match="signing_key") as caught:
        facade()
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "kind", [StorageSettings, LocksSettings, BootstrapSettings, FacadeSettings, SshSettings, CacheSettings]
)
def test_a_short_secret_is_refused_by_its_name(kind: type[Settings], monkeypatch: pytest.MonkeyPatch) -> None:
    """A secret can be guessed by whoever reaches a port, without a limit that knows of all ports."""
    secret = {name for name, field in kind.model_fields.items() if "SecretStr" in str(field.annotation)}
    for name in secret - {"database_password", "locks_database_url", "storage_database_url"}:
        with monkeypatch.context() as short:
            short.setenv(f"TOWPATH_{name.upper()}", "x" * 15)
            with pytest.raises(ValidationError) as caught:
                kind()
        assert f"TOWPATH_{name.upper()}: value error, expected at least " in reason_of(caught.value)


@pytest.mark.parametrize("kind", [LocksDatabaseSettings, MigrationSettings])
@pytest.mark.parametrize(
    ("url", "whole"),
    [
        ("postgresql://towpath@db:5432/towpath", "postgresql://towpath:p%40%2Fs%25@db:5432/towpath"),
        ("postgres://towpath@/towpath?host=/run", "postgresql://towpath:p%40%2Fs%25@/towpath?host=%2Frun"),
        ("postgresql://towpath:own@db/towpath", "postgresql://towpath:own@db/towpath"),
    ],
)
def test_the_password_of_the_database(
    kind: type[LocksDatabaseSettings | MigrationSettings],
    url: str,
    whole: str,
    secrets: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is put into a URL without one, whatever characters it has."""
    (secrets / "towpath_database_password").write_text("p@/s%\n")
    for service in ("LOCKS", "STORAGE"):
        monkeypatch.setenv(f"TOWPATH_{service}_DATABASE_URL", url)
    settings = kind()
    assert settings.database.get_secret_value() == whole
    assert "p@" not in repr(settings)
