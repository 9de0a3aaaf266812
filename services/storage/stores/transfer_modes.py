"""Transfer modes, direct or relayed: the setting, the abilities of the backend, and the result of the probe."""

from dataclasses import dataclass
from enum import StrEnum

from services.storage.backends.signing import Signing
from services.storage.intent import Intent

_DIRECTIONS = ("download", "upload")
_EXPECTED = "expected relay, direct or auto, or each direction's, such as download=direct,upload=relay"


class Mode(StrEnum):
    """The transfer mode of one direction."""

    RELAY = "relay"
    DIRECT = "direct"
    AUTO = "auto"


@dataclass
class Directions:
    """The directions that are direct."""

    downloads: bool = False
    uploads: bool = False

    def includes(self, intent: Intent) -> bool:
        """Return whether transfers of this intent are direct."""
        return (intent is Intent.READ and self.downloads) or (intent is Intent.WRITE and self.uploads)


def parse(text: str) -> tuple[Mode, Mode]:
    """Return the modes of downloads and of uploads in a text of `storage_transfer`. Raises ValueError."""
    if "=" not in text:
        return (mode := _mode(text)), mode
    pairs = [pair.strip().partition("=") for pair in text.split(",")]
    said = {direction: _mode(mode) for direction, _, mode in pairs}
    if len(said) != len(pairs) or not said.keys() <= set(_DIRECTIONS):
        raise ValueError(_EXPECTED)
    download, upload = (said.get(direction, Mode.AUTO) for direction in _DIRECTIONS)
    return download, upload


def _mode(text: str) -> Mode:
    try:
        return Mode(text.strip())
    except ValueError:
        raise ValueError(_EXPECTED) from None


def configured_directions(text: str, signing: Signing | None) -> Directions:
    """Return the directions that shall be direct with this setting and this signing of the backend.

    Raises ValueError if the setting demands a mode that the backend does not support.
    """
    download, upload = parse(text)
    if signing is None:
        if Mode.DIRECT in (download, upload):
            raise ValueError("storage_transfer: direct needs an object store in storage_url; expected relay or auto")
        return Directions()
    if upload is Mode.DIRECT and not signing.signs_uploads:
        raise ValueError(
            "storage_transfer: upload=direct needs a store that speaks S3; expected download=direct,upload=relay"
        )
    return Directions(
        downloads=_is_direct(download, signing), uploads=_is_direct(upload, signing) and signing.signs_uploads
    )


def _is_direct(mode: Mode, signing: Signing) -> bool:
    return mode is Mode.DIRECT or (mode is Mode.AUTO and signing.is_reachable)
