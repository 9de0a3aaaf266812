"""Backend that a URL names, and the location of its files."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from services.storage.backends.disk.paths import incoming_path, path_of
from services.storage.backends.opening import folder_of, open_backend
from services.storage.blob_names import new_name, oid_of

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
    "url", ["http://bucket/prefix", "/srv/objects", "", "file://srv/objects", "file:srv", "file:", "file:///a?b"]
)
async def test_other_urls(url: str) -> None:
    """Every other URL is refused, with what was expected."""
    with pytest.raises(ValueError, match=r"storage_url: expected "):
        await open_backend(url)


@given(st.text(max_size=80))
def test_trap_28_nothing_but_a_name_becomes_a_path(text: str) -> None:
    """A path is only built from a name (trap-28)."""
    with pytest.raises(ValueError, match="name: expected"):
        path_of(Path("/root"), text + "/")


def test_paths() -> None:
    """Objects lie two folders deep, bytes on their way in one; the name tells the oid."""
    for name in (OID, f"{OID}.0123456789abcdef"):
        assert path_of(Path("/r"), name) == Path(f"/r/objects/ab/cd/{name}")
        assert incoming_path(Path("/r"), name) == Path(f"/r/incoming/{name}")
        assert oid_of(name) == OID
    assert new_name(OID) != new_name(OID)
    assert oid_of(new_name(OID)) == OID
