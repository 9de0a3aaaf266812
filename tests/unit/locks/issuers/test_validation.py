"""The fields of an issuer that can be added."""

import pytest

from services.common.errors import InvalidArgument
from services.locks.issuers.validation import NewIssuer, check_issuer

GOOD = NewIssuer("sso", "https://sso.example.org/realms/studio", ["lfs"], "", "", "")


@pytest.mark.parametrize(
    "url",
    [
        "https://sso.example.org",
        "https://sso.example.org/",
        "https://sso.example.org:8443/a/b",
        "http://localhost:8080",
        "http://127.0.0.1:1/x",
        "http://[::1]:1",
    ],
)
def test_urls(url: str) -> None:
    """Issuers are at https, and on this computer at http too."""
    assert check_issuer(GOOD._replace(url=url)).url == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "sso.example.org",
        "http://sso.example.org",
        "http://10.0.0.1",
        "http://127.0.0.1.example.org",
        "http://localhost.example.org",
        "file:///etc/passwd",
        "https://",
        "https:///path",
        "https://user:password@sso.example.org",
        "https://sso.example.org?x=1",
        "https://sso.example.org/#x",
        "https://sso.example.org/ x",
        "https://sso.example.org/é",
        "https://sso.example.org/" + "x" * 2_000,
    ],
)
def test_other_urls_are_refused(url: str) -> None:
    """Whoever could change the keys on their way could sign as anybody."""
    with pytest.raises(InvalidArgument, match=r"^url: expected"):
        check_issuer(GOOD._replace(url=url))


def test_the_client_is_an_audience() -> None:
    """ID tokens are for the client; each audience counts once."""
    added = check_issuer(GOOD._replace(audiences=["lfs", "lfs"], client_id="cli", user_claim="email"))
    assert added.audiences == ["lfs", "cli"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"name": "-x"}, "^name: "),
        ({"name": "a b"}, "^name: "),
        ({"audiences": []}, "^audiences: "),
        ({"audiences": [str(n) for n in range(21)]}, "^audiences: "),
        ({"audiences": ["x" * 256]}, "^audiences: "),
        ({"client_id": "cli"}, "^user_claim: "),
        ({"client_secret": "s"}, "^client_id: "),
        ({"client_id": "cli", "user_claim": "email", "client_secret": "a\nb"}, "^client_secret: "),
        ({"groups_claim": "groups"}, "^user_claim: "),
        ({"user_claim": "a\nb"}, "^user_claim: "),
        ({"user_claim": "email", "groups_claim": "x" * 256}, "^groups_claim: "),
    ],
)
def test_other_fields_are_refused(changes: dict[str, object], message: str) -> None:
    """The message names the field."""
    with pytest.raises(InvalidArgument, match=message):
        check_issuer(GOOD._replace(**changes))  # type: ignore[arg-type] # the fields are of several types
