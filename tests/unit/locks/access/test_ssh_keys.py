"""Public keys of OpenSSH: which are taken, and their fingerprints."""

import base64
import subprocess
from pathlib import Path

import pytest

from services.common.errors import InvalidArgument, Reason
from services.locks.access.ssh_keys import check_fingerprint, parse_public_key
from tests.support.programs import needed
from tests.support.waiting import STEP_SECONDS


def _made(folder: Path, *options: str) -> tuple[str, str]:
    """Return the line of a new key, and its fingerprint, both as OpenSSH prints them."""
    program, path = needed("ssh-keygen"), folder / "key"
    subprocess.run(
        [program, "-q", "-N", "", "-C", "alice at home", "-f", path, *options], check=True, timeout=STEP_SECONDS
    )
    listed = subprocess.run(
        [program, "-l", "-E", "sha256", "-f", f"{path}.pub"], check=True, capture_output=True, text=True
    )
    return Path(f"{path}.pub").read_text(), listed.stdout.split()[1]


def _encoded(*parts: bytes) -> str:
    return base64.b64encode(b"".join(len(part).to_bytes(4) + part for part in parts)).decode()


@pytest.mark.parametrize(
    "options",
    [
        ("-t", "ed25519"),
        ("-t", "ecdsa", "-b", "256"),
        ("-t", "ecdsa", "-b", "384"),
        ("-t", "ecdsa", "-b", "521"),
        ("-t", "rsa", "-b", "2048"),
    ],
    ids=" ".join,
)
def test_a_key_has_the_fingerprint_that_openssh_prints(tmp_path: Path, options: tuple[str, ...]) -> None:
    """OpenSSH names a key by its fingerprint (%f), so that both have to agree."""
    line, fingerprint = _made(tmp_path, *options)
    key = parse_public_key(line)
    assert key.fingerprint == fingerprint
    assert key.text == " ".join(line.split()[:2])
    check_fingerprint(key.fingerprint)


def test_keys_of_security_keys_are_taken() -> None:
    """No security key is at hand in a test: these have the form of PROTOCOL.u2f."""
    ed25519 = _encoded(b"sk-ssh-ed25519@openssh.com", b"\1" * 32, b"ssh:")
    assert parse_public_key(f"sk-ssh-ed25519@openssh.com {ed25519} x").text.endswith(ed25519)
    kind = b"sk-ecdsa-sha2-nistp256@openssh.com"
    ecdsa = _encoded(kind, b"nistp256", b"\4" + b"\1" * 64, b"ssh:")
    assert parse_public_key(f"{kind.decode()} {ecdsa}").text.endswith(ecdsa)


_ED25519 = _encoded(b"ssh-ed25519", b"\1" * 32)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "one line"),
        ("ssh-ed25519", "base64 after|a key of the type"),
        (f"ssh-ed25519 {_ED25519}\nssh-ed25519 {_ED25519}", "one line"),
        (f"ssh-ed25519 {_ED25519}\rssh-ed25519 {_ED25519}", "one line"),
        (f"ssh-ed25519 {_ED25519} \0", "one line"),
        (f'command="id" ssh-ed25519 {_ED25519}', "without options"),
        (f"restrict ssh-ed25519 {_ED25519}", "without options"),
        (f"ssh-ed25519-cert-v01@openssh.com {_ED25519}", "certificate"),
        ("-----BEGIN OPENSSH PRIVATE KEY-----", "private"),
        (f"ssh-dss {_encoded(b'ssh-dss', b'1', b'2', b'3', b'4')}", "without options"),
        (f"ssh-ed25519 {_ED25519[:-4]}", "a key of the type"),
        (f"ssh-ed25519 {_ED25519}AAAA", "a key of the type"),
        (f"ssh-ed25519 {_ED25519[:20]}*{_ED25519[20:]}", "base64"),
        (f"ssh-ed25519 {_encoded(b'ssh-rsa', b'1' * 32)}", "a key of the type"),
        (f"ssh-ed25519 {_encoded(b'ssh-ed25519', b'1' * 31)}", "a key of the type"),
        (f"ssh-rsa {_encoded(b'ssh-rsa', b'3', bytes([127]) + b'1' * 127)}", "2048"),
        (f"ssh-rsa {_encoded(b'ssh-rsa', b'3', bytes(300) + b'1')}", "2048"),
        (f"ecdsa-sha2-nistp256 {_encoded(b'ecdsa-sha2-nistp256', b'nistp384', bytes([4]) * 97)}", "a key of the type"),
        (f"ecdsa-sha2-nistp256 {_encoded(b'ecdsa-sha2-nistp256', b'nistp256', bytes(65))}", "a key of the type"),
        ("ssh-ed25519 " + "A" * 20_000, "at most 16384"),
    ],
)
def test_anything_else_is_refused(text: str, expected: str) -> None:
    """A line of authorized_keys is made of the key: no options, no certificates, no second line."""
    with pytest.raises(InvalidArgument, match=expected) as caught:
        parse_public_key(text)
    assert caught.value.reason == Reason.INVALID_FIELD
    assert caught.value.message.startswith("public_key: expected ")


@pytest.mark.parametrize("text", ["", "SHA256:", f"SHA256:{'A' * 42}", f"SHA256:{'A' * 43}=", "MD5:00", "SHA256:%f"])
def test_other_texts_are_no_fingerprints(text: str) -> None:
    """A fingerprint goes into a command line."""
    with pytest.raises(InvalidArgument, match="fingerprint: expected"):
        check_fingerprint(text)
