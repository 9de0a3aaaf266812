"""Credentials in action tokens, encrypted: only facades can read them, and not the clients that get the tokens.

The algorithm is AES-256-GCM, with a key that HKDF derives from the key that signs the action tokens.
"""

import os
from base64 import urlsafe_b64decode, urlsafe_b64encode

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_PURPOSE = b"towpath: the credential in an action token"
_NONCE_BYTES = 12


class CredentialSealing:
    """Encrypts and decrypts credentials by a key that is derived from `signing_key`."""

    def __init__(self, signing_key: bytes) -> None:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=_PURPOSE).derive(signing_key)
        self._cipher = AESGCM(derived)

    def seal(self, credential: str) -> str:
        """Return a credential, encrypted."""
        nonce = os.urandom(_NONCE_BYTES)
        return urlsafe_b64encode(nonce + self._cipher.encrypt(nonce, credential.encode(), _PURPOSE)).decode()

    def open(self, sealed: object) -> str:
        """Return the credential that `seal` has encrypted. Raises ValueError."""
        if not isinstance(sealed, str):
            raise ValueError("the credential is no text")  # noqa: TRY004 - read from a token, as any other fault
        data = urlsafe_b64decode(sealed.encode())
        try:
            return self._cipher.decrypt(data[:_NONCE_BYTES], data[_NONCE_BYTES:], _PURPOSE).decode()
        except InvalidTag as error:
            raise ValueError("the credential was encrypted by another key") from error
