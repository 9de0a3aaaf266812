"""`towpath logout` where the server, or the provider, does not help: nothing stays on the computer in any case."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.issuer import Issuer, running_issuer
from tests.support.ports import free_ports
from tests.support.programs import PATH
from tests.support.waiting import STEP_SECONDS


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """A provider without a revocation endpoint, which is also a server without the address for revocations."""
    with running_issuer() as running:
        yield running


def _logout(home: Path, server: str, provider: str, *, token: str = "tp_secret") -> subprocess.CompletedProcess[str]:  # noqa: S107 - nobody's token
    """Run the command in a home folder where a person is signed in."""
    file = home / ".config/towpath/sign-ins.json"
    file.parent.mkdir(parents=True)
    fields = {"name": "sso", "issuer": provider, "client_id": "towpath", "user": "alice", "refresh_token": "renewing"}
    signed_in = {**fields, "server": server, "token": token, "expires_at": int(time.time()) + 3_600}
    file.write_text(json.dumps({server: signed_in}))
    ended = subprocess.run(
        [sys.executable, "-m", "services.cli", "logout", server, "--json"],
        env={"PATH": PATH, "HOME": str(home), "PYTHONPATH": os.pathsep.join(sys.path), "GIT_CONFIG_NOSYSTEM": "1"},
        capture_output=True,
        text=True,
        timeout=STEP_SECONDS,
        check=False,
    )
    assert json.loads(file.read_text()) == {}
    assert "secret" not in ended.stdout + ended.stderr
    return ended


def test_a_server_that_is_away_is_one_line(tmp_path: Path, issuer: Issuer) -> None:
    """The token expires by itself, so the command has done what it can."""
    server = f"http://127.0.0.1:{free_ports(1)[0]}"
    ended = _logout(tmp_path, server, issuer.url)
    assert ended.returncode == 0
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"the token is valid at the server until it expires: {server}/-/revoke: ")
    assert json.loads(ended.stdout) == {"server": server, "issuer": "sso", "user": "alice"}


def test_a_server_that_cannot_revoke_is_one_line(tmp_path: Path, issuer: Issuer) -> None:
    """An older server has no such address."""
    ended = _logout(tmp_path, issuer.url, issuer.url)
    assert ended.returncode == 0
    assert len(ended.stderr.splitlines()) == 1
    assert f"{issuer.url}/-/revoke" in ended.stderr


def test_without_a_token_there_is_nothing_to_end(tmp_path: Path, issuer: Issuer) -> None:
    """The helper has forgotten one that the server refused, and the server is not asked."""
    ended = _logout(tmp_path, f"http://127.0.0.1:{free_ports(1)[0]}", issuer.url, token="")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_provider_that_is_away_is_an_error(tmp_path: Path, issuer: Issuer) -> None:
    """A sign-in that goes on there does not end by itself."""
    issuer.is_answering = False
    ended = _logout(tmp_path, f"http://127.0.0.1:{free_ports(1)[0]}", issuer.url)
    assert ended.returncode == 1
    assert "the token is valid at the server until it expires" in ended.stderr
    assert "the sign-in is forgotten here, and may go on at the issuer" in ended.stderr
