"""Real certificates of an authority that only the tests know."""

from dataclasses import dataclass
from pathlib import Path

import trustme

from services.common.rpc.tls import Tls

AUTHORITY = trustme.CA()


@dataclass(frozen=True)
class CertificateFiles:
    """PEM files: a server's certificate with its chain, its key, and the authority that clients are to trust."""

    chain: Path
    key: Path
    authority: Path

    @property
    def settings(self) -> dict[str, str]:
        """The settings of a facade that serves with it."""
        return {"https_certificate": str(self.chain), "https_key": str(self.key)}

    @property
    def environment(self) -> dict[str, str]:
        """These settings as environment variables."""
        return {f"TOWPATH_{name.upper()}": text for name, text in self.settings.items()}


def write_certificate(folder: Path, *names: str) -> CertificateFiles:
    """Write a new certificate for these host names and addresses, over one that is there."""
    folder.mkdir(parents=True, exist_ok=True)
    issued = AUTHORITY.issue_cert(*(names or ("localhost", "127.0.0.1")))
    files = CertificateFiles(folder / "chain.pem", folder / "key.pem", folder / "authority.pem")
    files.chain.write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(str(files.key))
    AUTHORITY.cert_pem.write_to_path(str(files.authority))
    return files


def certificate_files(folder: Path, *names: str, authority: trustme.CA) -> dict[str, Path | None]:
    """Write a certificate for these host names, its key and its authority; return the settings that name the files."""
    issued = authority.issue_cert(*names)
    files: dict[str, Path | None] = {
        "tls_certificate": folder / f"{names[0]}.pem",
        "tls_key": folder / f"{names[0]}.key",
        "tls_ca": folder / "ca.pem",
    }
    (folder / f"{names[0]}.pem").write_bytes(b"".join(blob.bytes() for blob in issued.cert_chain_pems))
    issued.private_key_pem.write_to_path(folder / f"{names[0]}.key")
    authority.cert_pem.write_to_path(folder / "ca.pem")
    return files


def certificate(folder: Path, *names: str, authority: trustme.CA) -> Tls:
    """Return a certificate for these host names."""
    tls = Tls.read(certificate_files(folder, *names, authority=authority))
    assert tls is not None
    return tls
