"""Directions of transfer that are direct."""

import pytest

from services.storage.backends.signing import Signing
from services.storage.settings import StorageSettings
from services.storage.stores.transfer_modes import Directions, Mode, configured_directions, parse
from tests.support.signers import NoSigner

SETTINGS = {"storage_listen": "unix:x", "storage_url": "file:///x", "storage_database_url": "postgresql://x"}


def _signing(*, uploads: bool = True, reachable: bool = True) -> Signing:
    return Signing(NoSigner(), NoSigner(), signs_uploads=uploads, is_reachable=reachable)


@pytest.mark.parametrize(
    ("text", "modes"),
    [
        ("relay", (Mode.RELAY, Mode.RELAY)),
        ("direct", (Mode.DIRECT, Mode.DIRECT)),
        ("auto", (Mode.AUTO, Mode.AUTO)),
        ("download=direct,upload=relay", (Mode.DIRECT, Mode.RELAY)),
        (" upload=direct , download=relay", (Mode.RELAY, Mode.DIRECT)),
        ("upload=relay", (Mode.AUTO, Mode.RELAY)),
    ],
)
def test_settings(text: str, modes: tuple[Mode, Mode]) -> None:
    """One word for both directions, or each by itself; what is not said is automatic."""
    assert parse(text) == modes
    assert StorageSettings.model_validate({**SETTINGS, "storage_transfer": text}).storage_transfer == text


@pytest.mark.parametrize(
    "text", ["", "Direct", "yes", "upload", "upload=", "upload=direct,upload=relay", "x=direct", ","]
)
def test_other_settings_are_refused(text: str) -> None:
    """An unknown value is refused, and the error names the setting, so that an operator can correct it."""
    with pytest.raises(ValueError, match=r"storage_transfer\n.*expected relay, direct or auto"):
        StorageSettings.model_validate({**SETTINGS, "storage_transfer": text})


def test_auto_is_direct_where_clients_reach_the_store() -> None:
    """The value `auto` is direct only where clients reach the store, and for uploads only where it signs them."""
    assert configured_directions("auto", _signing()) == Directions(downloads=True, uploads=True)
    assert configured_directions("auto", _signing(reachable=False)) == Directions()
    assert configured_directions("auto", _signing(uploads=False)) == Directions(downloads=True)
    assert (
        configured_directions("auto", None)
        == configured_directions("relay", None)
        == configured_directions("relay", _signing())
        == Directions()
    )


def test_direct_is_direct_wherever_it_can_be() -> None:
    """A store that cannot do what the setting asks must be refused at the start."""
    assert configured_directions("direct", _signing(reachable=False)) == Directions(downloads=True, uploads=True)
    assert configured_directions("download=direct,upload=relay", _signing(uploads=False)) == Directions(downloads=True)
    for text, signing in (("direct", None), ("direct", _signing(uploads=False)), ("upload=direct", None)):
        with pytest.raises(ValueError, match="storage_transfer: "):
            configured_directions(text, signing)
