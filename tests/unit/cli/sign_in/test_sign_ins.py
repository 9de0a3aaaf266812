"""The file of sign-ins, and the sign-in that an address has."""

from dataclasses import replace
from pathlib import Path

import pytest

from services.cli.sign_in import credential_helper
from services.cli.sign_in.sign_ins import SignIn, SignIns, normal_url
from services.cli.sign_in.tokens import forget_token

HERE = SignIn("https://lfs.example.org", "sso", "https://sso.example.org", "cli", "alice", "tp_x", 1, "refresh")
BELOW = replace(HERE, server="https://lfs.example.org/towpath", user="below")
OTHER = replace(HERE, server="https://other.example.org:8443/a", user="other")


@pytest.fixture
def known(tmp_path: Path) -> SignIns:
    """Three sign-ins."""
    known = SignIns(tmp_path / "config" / "sign-ins.json")
    with known.locked():
        for sign_in in (HERE, BELOW, OTHER):
            known.put(sign_in)
    return known


@pytest.mark.parametrize(
    ("url", "user"),
    [
        ("https://lfs.example.org", "below"),
        ("https://LFS.example.org/studio/film.git", "alice"),
        ("https://lfs.example.org/towpath/studio/film", "below"),
        ("https://lfs.example.org/towpath-two", "alice"),
        ("https://other.example.org:8443/", "other"),
        ("https://other.example.org:8443/b", None),
        ("https://other.example.org", None),
        ("http://lfs.example.org", None),
        ("https://lfs.example.org.evil.example.org", None),
        ("https://evil.example.org/https://lfs.example.org", None),
    ],
)
def test_the_sign_in_of_an_address(known: SignIns, url: str, user: str | None) -> None:
    """A token goes to its own server only; git may leave the path out."""
    found = known.find(url)
    assert (found.user if found else None) == user


def test_the_file(known: SignIns, tmp_path: Path) -> None:
    """Nobody else can read it, and what is removed is gone."""
    file = tmp_path / "config" / "sign-ins.json"
    assert file.stat().st_mode & 0o777 == 0o600
    with known.locked():
        assert known.remove(BELOW.server) == BELOW
        assert known.remove(BELOW.server) is None
    assert known.read() == {HERE.server: HERE, OTHER.server: OTHER}
    assert sorted(path.name for path in file.parent.iterdir()) == ["sign-ins.json", "sign-ins.lock"]
    file.write_text("{")
    assert known.read() == {}


def test_a_refused_token_is_forgotten(known: SignIns) -> None:
    """Only the token itself: the sign-in goes on, and a newer token stays."""
    forget_token(known, HERE, "tp_older")
    assert known.read()[HERE.server] == HERE
    forget_token(known, HERE, HERE.token)
    assert known.read()[HERE.server] == replace(HERE, token="", expires_at=0)


def test_what_a_server_says_of_a_user_names_no_other_host(known: SignIns, monkeypatch: pytest.MonkeyPatch) -> None:
    """Git's helpers would keep, or give, a password of the server's choice for a host of its choice."""
    monkeypatch.setattr(credential_helper, "SignIns", lambda: known)
    asked = {"protocol": "https", "host": "lfs.example.org", "path": "studio"}
    hostile = replace(HERE, user="x\nhost=github.com\nusername=victim", expires_at=2**33)
    with known.locked():
        known.put(replace(hostile, user="alice"))
    assert credential_helper.answer("get", asked) == f"username=alice\npassword=tp_x\npassword_expiry_utc={2**33}\n"
    with known.locked():
        known.put(hostile)
    with pytest.raises(ValueError, match="username: expected no control characters"):
        credential_helper.answer("get", asked)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("lfs.example.org", "https://lfs.example.org"),
        ("HTTPS://LFS.Example.org/Path/", "https://lfs.example.org/Path"),
        ("http://localhost:8080//", "http://localhost:8080"),
    ],
)
def test_addresses(url: str, expected: str) -> None:
    """A server has one address, however it is written."""
    assert normal_url(url) == expected
