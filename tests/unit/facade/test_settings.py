"""The settings of the facade."""

import pytest
from pydantic import ValidationError

from services.facade.settings import FacadeSettings

NEEDED = {"storage_address": "unix:/s", "locks_address": "unix:/l", "signing_key": "k" * 32}


def test_the_defaults_need_addresses_and_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """No secret has a default (trap-29); empty variables are as unset ones where a setting is optional."""
    for name, value in NEEDED.items():
        monkeypatch.setenv(f"TOWPATH_{name.upper()}", value)
    monkeypatch.setenv("TOWPATH_PUBLIC_URL", "")
    settings = FacadeSettings()
    assert (settings.listen, settings.public_url, settings.batch_objects) == ("127.0.0.1:8080", None, 1_000)
    assert NEEDED["signing_key"] not in repr(settings)
    monkeypatch.delenv("TOWPATH_SIGNING_KEY")
    with pytest.raises(ValidationError, match="signing_key"):
        FacadeSettings()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("signing_key", "short"),
        ("signing_key_accepted", "short"),
        ("public_url", "lfs.example.org"),
        ("public_url", "https://h?x=y"),
        ("action_seconds", 59),
        ("failed_logins", "many"),
        ("realm", 'a"b'),
        ("batch_objects", 0),
        ("trusted_proxies", "10.0.0.0/33"),
    ],
)
def test_a_bad_value_is_refused_at_the_start(field: str, value: object) -> None:
    """The error names the field."""
    with pytest.raises(ValidationError, match=field):
        FacadeSettings.model_validate({**NEEDED, field: value})


def test_a_public_url_ends_without_a_slash() -> None:
    """It stands before paths."""
    settings = FacadeSettings.model_validate({**NEEDED, "public_url": "https://h.example/lfs/"})
    assert settings.public_url == "https://h.example/lfs"


@pytest.mark.parametrize(
    ("given", "share"),
    [
        ({}, 128),
        ({"requests_in_flight": 1}, 1),
        ({"requests_in_flight": 100}, 25),
        ({"requests_in_flight": 100, "requests_per_client": 90}, 90),
    ],
)
def test_one_client_has_a_quarter_of_the_places(given: dict[str, int], share: int) -> None:
    """A single client gets a quarter of the places, and at least one, so that it cannot take all of them."""
    assert FacadeSettings.model_validate({**NEEDED, **given}).share_of_requests == share
