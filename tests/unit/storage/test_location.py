"""Which backend a URL means, and where its files lie."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.storage.disk.paths import oid_of, path_of
from services.storage.location import folder_of, open_backend
from services.storage.settings import StorageSettings

OID = "abcdef0123456789" * 4


@pytest.mark.parametrize(
    ("url", "folder"),
    [
        ("file:///srv/objects", "/srv/objects"),
        ("file:///srv/with%20space/", "/srv/with space"),
        ("file://localhost/srv", "/srv"),
    ],
)
def test_file_urls(url: str, folder: str) -> None:
    """A file URL names an absolute folder."""
    assert folder_of(url) == Path(folder)


@pytest.mark.parametrize(
    "url", ["s3://bucket/prefix", "/srv/objects", "", "file://srv/objects", "file:srv", "file:", "file:///a?b"]
)
async def test_other_urls(url: str) -> None:
    """Every other URL is refused, with what was expected."""
    with pytest.raises(ValueError, match=r"storage_url: expected "):
        await open_backend(url)


@given(st.text(max_size=80))
def test_trap_28_nothing_but_an_oid_becomes_a_path(text: str) -> None:
    """A path is only built from an oid (trap 28)."""
    with pytest.raises(ValueError, match="oid: expected"):
        path_of(Path("/root"), text + "/")


def test_paths() -> None:
    """The tree is as drawn."""
    assert path_of(Path("/r"), OID) == Path(f"/r/objects/ab/cd/{OID}")
    incoming = path_of(Path("/r"), OID, incoming="x1")
    assert incoming == Path(f"/r/incoming/{OID}.x1")
    assert oid_of(incoming) == OID
    assert oid_of(Path("/r/incoming/notes.txt")) is None


def test_settings_errors_keep_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A setting that is missing is named, and the others are not repeated."""
    monkeypatch.setenv("TOWPATH_STORAGE_DATABASE_URL", "postgresql://u:hunter2@/d")
    with pytest.raises(ValueError, match="storage_listen") as caught:
        StorageSettings()
    assert "hunter2" not in str(caught.value)
