"""Mutual TLS between services: each end presents a certificate of one authority, and accepts no other peer."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import grpc

FILES = ("tls_certificate", "tls_key", "tls_ca")
"""The settings that name the files; either all are given or none."""


@dataclass(frozen=True)
class Tls:
    """A process's certificate with its chain, its key, and the certificate of the authority, all in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes

    @classmethod
    def read(cls, files: Mapping[str, Path | None]) -> Self | None:
        """Read the files that the settings of `FILES` name; return None if no setting is given.

        Raises ValueError, with the name of the setting, if only some are given or a file is not valid.
        """
        given = {name: path for name in FILES if (path := files.get(name)) is not None}
        if not given:
            return None
        if missing := [name for name in FILES if name not in given]:
            raise ValueError(f"{', '.join(missing)}: needed where {', '.join(given)} is set")
        certificate, key, authority = (_read(name, given[name]) for name in FILES)
        _check(given)
        return cls(certificate, key, authority)

    def for_server(self) -> grpc.ServerCredentials:
        """Return credentials by which a server requires a certificate of the authority from every caller."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], root_certificates=self.authority, require_client_auth=True
        )

    def for_channel(self) -> grpc.ChannelCredentials:
        """Return credentials by which a channel presents the certificate, and verifies a server's issuer and name."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: {path}: {(error.strerror or str(error)).lower()}") from error


def _check(given: Mapping[str, Path]) -> None:
    """Raise ValueError for invalid files, because gRPC would report them only as a failed handshake."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate, key, authority = (given[name] for name in FILES)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ValueError(f"tls_certificate, tls_key: expected a certificate and its key in PEM: {error}") from error
    try:
        context.load_verify_locations(authority)
    except ssl.SSLError as error:
        raise ValueError(f"tls_ca: expected the certificate of an authority in PEM: {error}") from error


def _no_password() -> str:
    """Raise ValueError, so that OpenSSL does not ask for a password at the terminal."""
    raise ValueError("the key is encrypted")
