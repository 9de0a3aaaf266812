"""Texts that clients carry encrypted, such as credentials in action tokens: only facades can read them.

The algorithm is AES-256-GCM, with a key that HKDF derives from the key that signs the action tokens.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode
from enum import Enum

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE_BYTES = 12


class Purpose(Enum):
    """The use of a sealed text; none is opened as another."""

    ACTION = b"towpath: the credential in an action token"
    SESSION = b"towpath: the session of a browser"
    SIGN_IN = b"towpath: a sign-in that is under way"
    CACHED_ACTION = b"towpath: an action of a cache, with the one of its upstream"


class Sealing:
    """Encrypts and decrypts texts for one purpose, by a key that is derived from `signing_key`."""

    def __init__(self, signing_key: bytes, purpose: Purpose) -> None:
        self._purpose = purpose.value
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=self._purpose).derive(signing_key)
        self._cipher = AESGCM(derived)

    def seal(self, text: str) -> str:
        """Return a text, encrypted."""
        nonce = os.urandom(_NONCE_BYTES)
        return urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, text.encode(), self._purpose)).decode()

    def open(self, sealed: object) -> str:
        """Return the text that `seal` has encrypted. Raises ValueError."""
        if not isinstance(sealed, str):
            raise ValueError("what is sealed is no text")  # noqa: TRY004 - read from a token, as any other fault
        data = urlsafe_b64decode(sealed.encode())
        if urlsafe_b64encode(data) != sealed.encode():
            raise ValueError("what is sealed is not what base64 makes of any bytes")
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], self._purpose).decode()
        except InvalidTag as error:
            raise ValueError("what is sealed was encrypted by another key") from error
