"""Oids in paths, and paths of oids."""

import pytest

from services.cli.errors import CommandError
from services.transfer import layout
from services.transfer.layout import OWN, Layouts, oid_of

OID = "0123456789abcdef" * 4
OTHER = "fedcba9876543210" * 4


@pytest.mark.parametrize(
    "path",
    [
        OID,
        f"01/23/{OID}",
        f"01/23/{OID[4:]}",
        f"objects/01/{OID}",
        f"a/b/01/{OID[2:]}",
        "/".join(OID),
        f"ab/cd/{OID}",
        f"{OID[:32]}/{OID[32:]}",
    ],
)
def test_paths_that_spell_an_oid(path: str) -> None:
    """However it is split; another oid has the path of the same layout."""
    layouts = Layouts()
    assert layouts.learn(path.split("/")) == OID
    assert layouts.paths_of(OID) == [path]
    [other] = layouts.paths_of(OTHER)
    assert oid_of(other.split("/")) == OTHER


@pytest.mark.parametrize(
    "path",
    [
        "",
        "README",
        OID[:-1],
        f"{OID}0",
        OID.upper(),
        f"{OID}.tmp",
        f"01/23/{OID[4:]}.tmp",
        f"01/2/{OID[4:]}",
        f"x/{OID[1:]}",
        f"{OID[:32]}/x/{OID[32:]}",
        "ab/" + "c" * 38,
    ],
)
def test_other_paths(path: str) -> None:
    """Unfinished files, objects of git with SHA-1, and what lies about."""
    assert Layouts().learn(path.split("/")) is None


def test_many_objects_have_few_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that the path of an object is found without remembering each; a place without any order is refused."""
    monkeypatch.setattr(layout, "_MAX_LAYOUTS", 3)
    layouts = Layouts()
    for number in range(1000):
        oid = f"{number:064x}"
        layouts.learn(["lfs", *OWN.path_of(oid).split("/")])
        layouts.learn([oid[:2], oid[2:4], oid[4:]])
    assert layouts.paths_of(OID) == [f"lfs/01/23/{OID}", f"01/23/{OID[4:]}"]
    layouts.learn(["a third", OID])
    with pytest.raises(CommandError, match="expected a folder for the first digits"):
        layouts.learn(["a fourth", OID])
