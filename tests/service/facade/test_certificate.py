"""The files from which the facade serves HTTPS."""

import os
import subprocess
from pathlib import Path

import pytest

from services.facade.server.certificate import Certificate
from services.facade.settings import FacadeSettings
from tests.support.certificates import write_certificate
from tests.support.programs import needed
from tests.support.waiting import STEP_SECONDS
from tests.unit.facade.test_settings import NEEDED


def test_missing_files_are_named(tmp_path: Path) -> None:
    """Each by its setting."""
    files = write_certificate(tmp_path)
    with pytest.raises(ValueError, match=r"^https_certificate: cannot be read: no such file"):
        Certificate(tmp_path / "none", files.key)
    with pytest.raises(ValueError, match=r"^https_key: cannot be read: no such file"):
        Certificate(files.chain, tmp_path / "none")


def test_a_key_of_another_certificate_is_refused(tmp_path: Path) -> None:
    """A key of another certificate or a file that is no PEM is refused before a client's handshake fails."""
    files, others = write_certificate(tmp_path / "a"), write_certificate(tmp_path / "b")
    with pytest.raises(ValueError, match="https_key: is not the key of https_certificate"):
        Certificate(files.chain, others.key)
    files.chain.write_text("no certificate")
    with pytest.raises(ValueError, match="expected PEM files"):
        Certificate(files.chain, files.key)


def test_a_key_with_a_passphrase_is_refused(tmp_path: Path) -> None:
    """Nobody is there to be asked for it."""
    files = write_certificate(tmp_path)
    needed("openssl")
    locked = tmp_path / "locked.pem"
    command = ["openssl", "pkey", "-in", str(files.key), "-out", str(locked), "-aes256", "-passout", "pass:secret"]
    subprocess.run(command, check=True, capture_output=True, timeout=STEP_SECONDS)
    with pytest.raises(ValueError, match="https_key: expected a key without a passphrase"):
        Certificate(files.chain, locked)


def test_one_without_the_other_is_refused(tmp_path: Path) -> None:
    """A certificate without its key must be noticed when the process starts."""
    files = write_certificate(tmp_path)
    for name, text in files.settings.items():
        with pytest.raises(ValueError, match="https_certificate and https_key: expected both or neither"):
            FacadeSettings.model_validate({**NEEDED, name: text})


def test_only_changed_files_are_read_again(tmp_path: Path) -> None:
    """A pair that cannot be used is tried again until it can."""
    files = write_certificate(tmp_path)
    certificate = Certificate(files.chain, files.key)
    assert not certificate.renew()
    before = files.key.read_bytes()
    write_certificate(tmp_path)
    renewed = files.key.read_bytes()
    files.key.write_bytes(before)
    assert not certificate.renew()
    files.key.unlink()
    assert not certificate.renew()
    files.key.write_bytes(renewed)
    assert certificate.renew()
    assert not certificate.renew()
    os.utime(files.chain, ns=(1, 1))
    assert certificate.renew()
