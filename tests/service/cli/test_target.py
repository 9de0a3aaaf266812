"""Target of the administration commands: options before the environment, a server before a data folder."""

from pathlib import Path

import pytest
import typer

from services.cli.connection import Target
from services.cli.errors import CommandError
from services.cli.up.runtime_directory import LOCKS_SOCKET, runtime_directory


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment that says nothing, but where the secrets folder is."""
    for name in ("DATA", "SERVER", "TOKEN", "ADMIN_TOKEN"):
        monkeypatch.delenv(f"TOWPATH_{name}", raising=False)
    monkeypatch.setenv("TOWPATH_SECRETS_DIR", str(tmp_path / "secrets"))
    return monkeypatch


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data folder on which `towpath up` seems to run."""
    data = tmp_path.resolve() / "data"
    socket = runtime_directory(data) / LOCKS_SOCKET
    socket.parent.mkdir(parents=True)
    socket.touch()
    (data / "admin-token").write_text("of-the-folder\n")
    return data


def test_a_server_of_the_environment_stands_before_the_default_folder(environment: pytest.MonkeyPatch) -> None:
    """In a container there is no data folder, and nobody wants to type the address."""
    environment.setenv("TOWPATH_SERVER", "dns:///locks:9002")
    environment.setenv("TOWPATH_DATA", "/elsewhere")
    environment.setenv("TOWPATH_TOKEN", "of-the-environment")
    location = Target(None, None).locate()
    assert (location.address, location.token.get_secret_value()) == ("dns:///locks:9002", "of-the-environment")


def test_a_folder_that_is_given_stands_before_the_environment(data: Path, environment: pytest.MonkeyPatch) -> None:
    """A user who types --data means it, so the option outranks the environment."""
    environment.setenv("TOWPATH_SERVER", "locks:9002")
    location = Target(data, None).locate()
    assert location.address == f"unix:{runtime_directory(data) / LOCKS_SOCKET}"
    assert location.token.get_secret_value() == "of-the-folder"


def test_the_folder_of_the_environment(data: Path, environment: pytest.MonkeyPatch) -> None:
    """TOWPATH_DATA is taken where no server is named."""
    environment.setenv("TOWPATH_DATA", str(data))
    assert Target(None, None).locate().token_source == f"{data}/admin-token"


def test_the_token_of_the_secret_file(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The file of the administrator's token is enough; a token of the environment stands before it."""
    (tmp_path / "secrets").mkdir()
    (tmp_path / "secrets" / "towpath_admin_token").write_text("of-the-file\n")
    assert Target(None, "locks:9002").locate().token.get_secret_value() == "of-the-file"
    environment.setenv("TOWPATH_TOKEN", "of-the-environment")
    assert Target(None, "locks:9002").locate().token.get_secret_value() == "of-the-environment"


def test_what_is_missing_is_told(environment: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a token, or without a folder, the message names what would help."""
    with pytest.raises(typer.BadParameter, match="towpath_admin_token") as caught:
        Target(None, "locks:9002").locate()
    assert "TOWPATH_TOKEN" in str(caught.value)
    environment.setenv("TOWPATH_DATA", str(tmp_path / "none"))
    with pytest.raises(CommandError, match="TOWPATH_SERVER"):
        Target(None, None).locate()
