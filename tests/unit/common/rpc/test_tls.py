"""The files of mutual TLS: all or none, and what is wrong is told by the name of the setting."""

from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives import serialization

from services.common.rpc.tls import FILES, Tls
from services.common.settings import ServiceSettings
from tests.support.certificates import certificate_files


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path | None]:
    """Good files."""
    return certificate_files(tmp_path, "localhost", authority=trustme.CA())


def test_none_is_no_tls() -> None:
    """Without any, there is no TLS."""
    assert Tls.read({}) is None
    assert Tls.read(dict.fromkeys(FILES)) is None
    assert ServiceSettings().read_tls() is None


def test_the_settings_name_the_files(files: dict[str, Path | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """They are paths in the environment; what was read does not show the key."""
    for name, path in files.items():
        monkeypatch.setenv(f"TOWPATH_{name.upper()}", str(path))
    tls = ServiceSettings().read_tls()
    assert tls == Tls.read(files)
    assert "PRIVATE KEY" not in repr(tls)


@pytest.mark.parametrize("name", FILES)
def test_some_alone_are_refused(name: str, files: dict[str, Path | None]) -> None:
    """The one that is missing is named."""
    with pytest.raises(ValueError, match=f"^{name}: needed where "):
        Tls.read({**files, name: None})


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_not_there_is_named(name: str, files: dict[str, Path | None], tmp_path: Path) -> None:
    """So is a file that cannot be read."""
    with pytest.raises(ValueError, match=f"^{name}: {tmp_path}/none: no such file"):
        Tls.read({**files, name: tmp_path / "none"})


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_something_else_is_named(name: str, files: dict[str, Path | None], tmp_path: Path) -> None:
    """It is found at the start, not by handshakes that fail."""
    (tmp_path / "else").write_text("something else")
    with pytest.raises(ValueError, match=f"{name}.*: expected "):
        Tls.read({**files, name: tmp_path / "else"})


def test_the_key_of_another_certificate_is_refused(files: dict[str, Path | None], tmp_path: Path) -> None:
    """Certificate and key must belong together."""
    other = certificate_files(tmp_path, "other", authority=trustme.CA())
    with pytest.raises(ValueError, match="tls_key: expected"):
        Tls.read({**files, "tls_key": other["tls_key"]})


def test_an_encrypted_key_is_refused(files: dict[str, Path | None], tmp_path: Path) -> None:
    """Nobody is asked for its password: a service has no terminal."""
    plain = files["tls_key"]
    assert plain is not None
    key = serialization.load_pem_private_key(plain.read_bytes(), None)
    (tmp_path / "encrypted").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"hush"),
        )
    )
    with pytest.raises(ValueError, match="encrypted"):
        Tls.read({**files, "tls_key": tmp_path / "encrypted"})
