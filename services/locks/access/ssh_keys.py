"""SSH keys of users, and the tokens of the sessions that prove them.

A token of a session refers to its key, so that removing the key ends the token in the same transaction.
"""

import base64
import binascii
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from sqlalchemy import delete, func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlmodel import col

from services.common.errors import AlreadyExists, InvalidArgument, NotFound, Reason
from services.common.fingerprint import is_fingerprint
from services.locks.access.tokens import new_secret, token_hash
from services.locks.models import SshKey, Token, User
from services.locks.repository_names import id_of
from services.locks.validation import check_repository_name

# A key of RSA with 16384 bits, the most that OpenSSH takes, has 2,800 characters.
_MAX_CHARACTERS = 16 * 1024
_MIN_RSA_BITS, _MAX_RSA_BITS = 2048, 16384
_MAX_KEYS = 1000
_MIN_VALID_SECONDS, _MAX_VALID_SECONDS = 60, 31 * 24 * 3600

# The number of parts after the type in the binary form of a key; the last of `sk-` is the application.
_PARTS = {
    "ssh-ed25519": 1,
    "ssh-rsa": 2,
    "ecdsa-sha2-nistp256": 2,
    "ecdsa-sha2-nistp384": 2,
    "ecdsa-sha2-nistp521": 2,
    "sk-ssh-ed25519@openssh.com": 2,
    "sk-ecdsa-sha2-nistp256@openssh.com": 3,
}
_POINT_BYTES = {"nistp256": 65, "nistp384": 97, "nistp521": 133}
_ED25519_BYTES = 32

_KEY = SshKey.__table__.c


@dataclass(frozen=True, slots=True)
class PublicKey:
    """A public key as its type and base64, with its fingerprint as OpenSSH prints it."""

    text: str
    fingerprint: str


@dataclass(frozen=True, slots=True)
class KeyUser:
    """An SSH key with its user."""

    key: SshKey
    user_id: int
    user_name: str


def parse_public_key(text: str) -> PublicKey:
    """Return the public key of a line of OpenSSH. Raises `InvalidArgument` (INVALID_FIELD) for anything else.

    Options and certificates are refused, because they would change what a key may do; so is more than one line.
    """
    if len(text) > _MAX_CHARACTERS:
        raise _refuse(f"at most {_MAX_CHARACTERS} characters")
    line = text.strip()
    if len(line.splitlines()) != 1 or not line.isprintable():
        raise _refuse("one line with the public key, such as that of ~/.ssh/id_ed25519.pub")
    if "PRIVATE KEY" in line:
        raise _refuse("a public key, and this is a private one")
    kind, _, rest = line.partition(" ")
    if "-cert-v0" in kind:
        raise _refuse("a public key, and this is a certificate")
    if kind not in _PARTS:
        raise _refuse(f"a line that begins with one of {', '.join(_PARTS)}, without options")
    encoded = rest.split(" ", 1)[0]
    try:
        blob = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError) as error:
        raise _refuse(f"base64 after {kind}") from error
    parts = _split(blob)
    if parts is None or parts[0] != kind.encode() or len(parts) != 1 + _PARTS[kind]:
        raise _refuse(f"a key of the type {kind}")
    _check_strength(kind, parts)
    # Encoded anew: other spellings of the same bytes would be other lines of one key.
    text = f"{kind} {base64.b64encode(blob).decode()}"
    digest = base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")
    return PublicKey(text, f"SHA256:{digest}")


def check_fingerprint(fingerprint: str) -> None:
    """Raise `InvalidArgument` unless it is the SHA-256 of a key as OpenSSH prints it."""
    if not is_fingerprint(fingerprint):
        raise InvalidArgument(Reason.INVALID_FIELD, 'fingerprint: expected "SHA256:" and 43 characters of base64')


def _refuse(expected: str) -> InvalidArgument:
    return InvalidArgument(Reason.INVALID_FIELD, f"public_key: expected {expected}")


def _split(blob: bytes) -> list[bytes] | None:
    """Return the length-prefixed parts of a key's binary form; None if they do not fill it exactly."""
    parts: list[bytes] = []
    position = 0
    while position < len(blob):
        begin = position + 4
        end = begin + int.from_bytes(blob[position:begin])
        if begin > len(blob) or end > len(blob):
            return None
        parts.append(blob[begin:end])
        position = end
    return parts or None


def _check_strength(kind: str, parts: Sequence[bytes]) -> None:
    if kind == "ssh-rsa":
        bits = int.from_bytes(parts[2]).bit_length()
        if parts[2][:1] >= b"\x80" or not _MIN_RSA_BITS <= bits <= _MAX_RSA_BITS:
            raise _refuse(f"a key of RSA with {_MIN_RSA_BITS} to {_MAX_RSA_BITS} bits, got {bits}")
    elif "ed25519" in kind:
        if len(parts[1]) != _ED25519_BYTES:
            raise _refuse(f"a key of the type {kind}")
    else:
        curve = parts[1].decode("ascii", errors="replace")
        if f"-{curve}" not in kind or len(parts[2]) != _POINT_BYTES.get(curve) or parts[2][0] != 4:
            raise _refuse(f"a key of the type {kind}")


async def add_key(connection: AsyncConnection, *, user: User, name: str, key: PublicKey) -> SshKey:
    """Add a key to a user; the same key under the same name again is the one that exists.

    Raises `AlreadyExists` (SSH_KEY_EXISTS) if the user has another key of that name, or if somebody has the key, and
    `InvalidArgument` for a user with 1,000 keys.
    """
    count = await connection.scalar(select(func.count()).where(col(SshKey.user_id) == user.id))
    if (count or 0) >= _MAX_KEYS:
        raise InvalidArgument(Reason.INVALID_FIELD, f"user_name: expected a user with fewer than {_MAX_KEYS} keys")
    values = {"user_id": user.id, "name": name, "fingerprint": key.fingerprint, "public_key": key.text}
    await connection.execute(insert(SshKey).values(**values).on_conflict_do_nothing())
    found = await find_key(connection, key.fingerprint)
    if found is not None and found.user_id != user.id:
        raise AlreadyExists(Reason.SSH_KEY_EXISTS, f"public_key: the key is one of {found.user_name} already")
    if found is None:
        raise AlreadyExists(Reason.SSH_KEY_EXISTS, f"name: the user has another key {name} already")
    if found.key.name != name:
        raise AlreadyExists(Reason.SSH_KEY_EXISTS, f"public_key: the user has this key already, as {found.key.name}")
    return found.key


async def list_keys(connection: AsyncConnection, user_id: int) -> Sequence[SshKey]:
    """Return a user's keys, ordered by name."""
    statement = select(*_KEY).where(col(SshKey.user_id) == user_id).order_by(col(SshKey.name))
    return [SshKey(**row) for row in (await connection.execute(statement)).mappings()]


async def remove_key(connection: AsyncConnection, *, user_id: int, name: str) -> SshKey | None:
    """Remove a user's key of that name and return it; None if it does not exist. The tokens of its sessions end."""
    statement = delete(SshKey).where(col(SshKey.user_id) == user_id, col(SshKey.name) == name).returning(*_KEY)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else SshKey(**row)


async def find_key(connection: AsyncConnection, fingerprint: str) -> KeyUser | None:
    """Return the key of a fingerprint with its user; None if nobody has it."""
    statement = (
        select(col(User.name), *_KEY)
        .join_from(SshKey, User, col(SshKey.user_id) == col(User.id))
        .where(col(SshKey.fingerprint) == fingerprint)
    )
    row = (await connection.execute(statement)).one_or_none()
    if row is None:
        return None
    user_name, *values = row
    key = SshKey(**dict(zip(_KEY.keys(), values, strict=True)))
    return KeyUser(key, key.user_id, user_name)


async def known_key(connection: AsyncConnection, fingerprint: str) -> KeyUser:
    """Return the key of a fingerprint. Raises `NotFound` (SSH_KEY_NOT_FOUND)."""
    check_fingerprint(fingerprint)
    found = await find_key(connection, fingerprint)
    if found is None:
        raise NotFound(Reason.SSH_KEY_NOT_FOUND, f"nobody has the key {fingerprint}")
    return found


async def issue_session_token(
    connection: AsyncConnection, *, fingerprint: str, repository: str, may_write: bool, valid_seconds: int
) -> tuple[str, KeyUser]:
    """Return the secret of a new token of a key's user for a repository, valid for that time at most.

    With the token of a repository that does not exist, nothing can be done. Raises `NotFound` (SSH_KEY_NOT_FOUND), and
    `InvalidArgument` for no name of a repository, and for a time that is not 60 seconds to 31 days.
    """
    check_repository_name("repository", repository)
    if not _MIN_VALID_SECONDS <= valid_seconds <= _MAX_VALID_SECONDS:
        expected = f"expected {_MIN_VALID_SECONDS} to {_MAX_VALID_SECONDS}"
        raise InvalidArgument(Reason.INVALID_FIELD, f"valid_seconds: {expected}")
    found = await known_key(connection, fingerprint)
    secret = new_secret()
    hashed = token_hash(secret)
    values = {
        "user_id": found.user_id,
        # In no list, and unique because the hash is.
        "name": f"ssh:{hashed.hex()}",
        "token_hash": hashed,
        "expires_at": func.now() + timedelta(seconds=valid_seconds),
        "ssh_key_id": found.key.id,
        "ssh_repository_id": id_of(repository),
        "ssh_may_write": may_write,
    }
    await connection.execute(insert(Token).values(**values))
    return secret, found
