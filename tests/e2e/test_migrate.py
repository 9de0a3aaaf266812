"""`towpath migrate` and the administration commands as in a stack: secrets are files, and the server is a setting."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from tests.support.commands import finished
from tests.support.stack import TOWPATH
from tests.support.waiting import STEP_SECONDS

FIRST = "the-first-token-of-the-administrator"
SECOND = "the-second-token-of-the-administrator"


@dataclass
class Site:
    """A lock service, and the folder of the secret files."""

    secrets: Path
    environment: dict[str, str]

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of `towpath`."""
        return finished([*TOWPATH, *arguments], env=self.environment)

    def give_token(self, token: str) -> None:
        """Write the administrator's token."""
        (self.secrets / "towpath_admin_token").write_text(f"{token}\n")

    def migrate(self) -> None:
        """Run `towpath migrate`, which tells no token."""
        result = self.run("migrate")
        assert result.returncode == 0, result.stderr
        assert "administrator" in result.stdout
        for token in (FIRST, SECOND):
            assert token not in result.stdout + result.stderr

    def towpath(self, *arguments: str) -> Any:  # noqa: ANN401 - whatever JSON the command prints
        """Run an administration command, and return what it prints, parsed."""
        result = self.run(*arguments, "--json")
        assert result.returncode == 0, result.stderr
        return json.loads(result.stdout)


@pytest.fixture
def site(database_url: SecretStr, tmp_path: Path) -> Iterator[Site]:
    """A lock service whose tables are yet to be made."""
    address = f"unix:{tmp_path}/locks.sock"
    url = database_url.get_secret_value()
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    environment = {
        **os.environ,
        "TOWPATH_SECRETS_DIR": str(secrets),
        "TOWPATH_DATABASE_URL": url,
        "TOWPATH_SERVER": address,
        "TOWPATH_LOCKS_DATABASE_URL": url,
        "TOWPATH_LOCKS_LISTEN": address,
        "TOWPATH_STORAGE_ADDRESS": f"unix:{tmp_path}/storage.sock",
    }
    service = subprocess.Popen([sys.executable, "-m", "services.locks"], env=environment, stdout=subprocess.DEVNULL)
    try:
        yield Site(secrets, environment)
    finally:
        service.terminate()
        service.wait(STEP_SECONDS)


def test_the_administrator_has_the_token_that_was_given(site: Site) -> None:
    """Once migrated, commands just work; to migrate again changes nothing, but with a new token the old one ends."""
    site.give_token(FIRST)
    site.migrate()
    assert site.towpath("user", "add", "carol")["name"] == "carol"
    [token] = site.towpath("token", "list", "admin")
    site.migrate()
    [same] = site.towpath("token", "list", "admin")
    assert (same["id"], same["created_at"]) == (token["id"], token["created_at"])
    site.give_token(SECOND)
    result = site.run("user", "list")
    assert result.stderr == "towpath: the secret file towpath_admin_token: the token is not valid\n"
    site.migrate()
    assert [user["name"] for user in site.towpath("user", "list")] == ["admin", "carol"]
    site.give_token(FIRST)
    result = site.run("user", "list")
    assert result.stderr == "towpath: the secret file towpath_admin_token: the token local was revoked\n"
    assert result.returncode == 1
    site.migrate()
    assert [user["name"] for user in site.towpath("user", "list")] == ["admin", "carol"]


def test_a_short_token_is_refused(site: Site) -> None:
    """A token that can be guessed must not become an administrator's token (trap-29)."""
    site.give_token("too-short")
    result = site.run("migrate")
    assert result.returncode == 1
    assert "TOWPATH_ADMIN_TOKEN: " in result.stderr
    assert "too-short" not in result.stdout + result.stderr
