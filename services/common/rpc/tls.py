"""Mutual TLS between services: both ends show a certificate of one authority, and answer nobody else."""

import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

import grpc

FILES = ("tls_certificate", "tls_key", "tls_ca")
"""The settings that name the files; all are given, or none."""


@dataclass(frozen=True)
class Tls:
    """A process' certificate with its chain, the key to it, and the certificate of the authority, all in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)
    authority: bytes

    @classmethod
    def read(cls, files: Mapping[str, Path | None]) -> Self | None:
        """Read the files that the settings of `FILES` name; None where no setting is given.

        Raises ValueError, which names the setting, where only some are given, or a file is not what it should be.
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
        """Return what makes a server ask every caller for a certificate of the authority."""
        return grpc.ssl_server_credentials(
            [(self.key, self.certificate)], root_certificates=self.authority, require_client_auth=True
        )

    def for_channel(self) -> grpc.ChannelCredentials:
        """Return what makes a channel show the certificate, and accept a server's of the authority and its name."""
        return grpc.ssl_channel_credentials(self.authority, self.key, self.certificate)


def _read(name: str, path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ValueError(f"{name}: {path}: {(error.strerror or str(error)).lower()}") from error


def _check(given: Mapping[str, Path]) -> None:
    """Find out what gRPC would only tell as a handshake that fails."""
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
    """Keep OpenSSL from asking the terminal for one."""
    raise ValueError("the key is encrypted")
