"""Sign-in of people at a real provider of OpenID Connect, in a real browser, with the real commands and git."""

import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from towpath.access.v1 import admin_service_pb2 as admin

from tests.service.facade.conftest import Inner, Place
from tests.service.locks.issuers import add_group, add_provider
from tests.support.browser import Browser
from tests.support.facade import RunningFacade
from tests.support.http import Client, content, oid_of
from tests.support.oidc_provider import OidcProvider
from tests.support.postgres import TestPostgres
from tests.support.programs import PATH, needed
from tests.support.sign_in import address_in, sign_in
from tests.support.waiting import STEP_SECONDS

HELPER = f"!{sys.executable} -m services.cli.sign_in.credential_helper"


@pytest.fixture(scope="module")
async def issuer(inner: Inner, provider: OidcProvider) -> str:
    """The name of the provider at the lock service."""
    return await add_provider(inner.locks, "sso", provider)


@dataclass
class Terminal:
    """A person's home folder, and the commands that the person runs there."""

    home: Path
    facade: RunningFacade

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables of the commands; git's settings are those of this person alone."""
        return {
            "PATH": PATH,
            "HOME": str(self.home),
            "PYTHONPATH": os.pathsep.join(sys.path),
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0",
        }

    async def start(self, *command: str) -> asyncio.subprocess.Process:
        """Start a command."""
        return await asyncio.create_subprocess_exec(
            *command,
            env=self.environment,
            cwd=self.home,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    async def run(self, *command: str, text: str = "", status: int = 0) -> str:
        """Run a command to its end, and return what it prints on both outputs."""
        process = await self.start(*command)
        printed, errors = await asyncio.wait_for(process.communicate(text.encode()), STEP_SECONDS)
        assert process.returncode == status, errors.decode()
        return (printed + errors).decode()

    async def towpath(self, *arguments: str, status: int = 0) -> str:
        """Run `towpath`."""
        return await self.run(sys.executable, "-m", "services.cli", *arguments, status=status)

    async def start_login(self, issuer: str) -> asyncio.subprocess.Process:
        """Start `towpath login`, which has to name the issuer where other tests have added issuers of their own."""
        command = ("-m", "services.cli", "login", self.facade.origin, "--issuer", issuer)
        return await self.start(sys.executable, *command)

    async def login(
        self,
        browser: Browser,
        issuer: str,
        user: str,
        sign_in: Callable[[Browser, str], Awaitable[None]],
        *,
        times: int = 1,
    ) -> str:
        """Run `towpath login`, and sign in as a user with the browser as often as it asks for that.

        Return what the command prints at last.
        """
        process = await self.start_login(issuer)
        for _ in range(times):
            await browser.open(await address_in(process))
            await sign_in(browser, user)
        printed, errors = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
        assert process.returncode == 0, errors.decode()
        return printed.decode()

    async def credential(self) -> dict[str, str]:
        """Return the credential that git finds for the server."""
        scheme, _, host = self.facade.origin.partition("://")
        printed = await self.run("git", "credential", "fill", text=f"protocol={scheme}\nhost={host}\n\n")
        return dict(line.split("=", 1) for line in printed.splitlines() if "=" in line)


@pytest.fixture
async def terminal(tmp_path: Path, facade: RunningFacade, issuer: str) -> Terminal:
    """A person who has configured git to use the helper; people sign in at the issuer."""
    needed("git")
    assert issuer
    home = tmp_path / "home"
    home.mkdir()
    terminal = Terminal(home, facade)
    await terminal.run("git", "config", "--global", f"credential.{facade.origin}.helper", HELPER)
    return terminal


async def test_a_person_signs_in_and_works(
    place: Place, provider: OidcProvider, issuer: str, terminal: Terminal, browser: Browser, postgres: TestPostgres
) -> None:
    """From the browser to an upload: the provider's group is a group here, and git gets tokens that are refreshed."""
    locks = place.inner.locks
    await add_group(postgres, locks, "artists", place.name, "write")
    mapping = admin.MapIssuerGroupRequest(issuer=issuer, value="/film/artists", group="artists")
    await locks.admin_peer.call(locks.admin.MapIssuerGroup, mapping)
    printed = await terminal.login(browser, issuer, "alice", sign_in)
    # There is a user of that name already, who is somebody else.
    assert "alice@sso" in printed
    first = await terminal.credential()
    assert first["username"] == "alice@sso"
    assert first["password"].startswith("tp_")
    data = content(place.name, 5_000)
    async with Client(place.base_url, first["username"], first["password"]) as client:
        assert (await client.upload(data)).status_code == 200
        assert (await client.lock("a.bin")).json()["lock"]["owner"]["name"] == "alice@sso"
    file = terminal.home / ".config/towpath/sign-ins.json"
    assert file.stat().st_mode & 0o777 == 0o600

    # A token that was refused is replaced, also when the provider signs with a new key; so do several at once.
    await provider.rotate()
    refused = "".join(f"{name}={value}\n" for name, value in first.items())
    await terminal.run("git", "credential", "reject", text=f"{refused}\n")
    found = await asyncio.gather(*(terminal.credential() for _ in range(4)))
    assert len({credential["password"] for credential in found}) == 1
    second = found[0]
    assert second["password"] != first["password"]
    async with Client(place.base_url, second["username"], second["password"]) as client:
        assert (await client.download(oid_of(data), len(data))).content == data

    await terminal.towpath("logout", place.facade.origin)
    assert "sign in again" not in await terminal.run(
        "git", "credential", "fill", text="protocol=http\nhost=127.0.0.1\n\n", status=128
    )
    assert "nobody is signed in" in await terminal.towpath("logout", place.facade.origin, status=1)


@pytest.mark.drill
async def test_a_person_without_the_group_gets_nothing(
    place: Place, issuer: str, terminal: Terminal, browser: Browser
) -> None:
    """Everybody at the provider can sign in; what they may do is decided here."""
    await terminal.login(browser, issuer, "mallory", sign_in)
    found = await terminal.credential()
    async with Client(place.base_url, found["username"], found["password"]) as client:
        assert (await client.batch("download", ("0" * 64, 1))).status_code == 404


@pytest.mark.drill
async def test_a_person_who_refuses_is_not_signed_in(
    provider: OidcProvider, issuer: str, terminal: Terminal, browser: Browser
) -> None:
    """The command ends with the reason, and git has no credential."""
    process = await terminal.start_login(issuer)
    await browser.open(await address_in(process))
    await browser.click("button[name=abort]")
    _, errors = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
    assert process.returncode == 1
    assert provider.url in errors.decode()
    assert not (terminal.home / ".config/towpath/sign-ins.json").exists()


async def test_an_ended_sign_in_says_so(
    provider: OidcProvider, issuer: str, terminal: Terminal, browser: Browser
) -> None:
    """Git falls back to asking when the provider ends the sign-in, and the person is told what to do."""
    await terminal.login(browser, issuer, "nobody", sign_in)
    file = terminal.home / ".config/towpath/sign-ins.json"
    state = file.read_text()
    [refresh_token] = re.findall(r'"refresh_token": "([^"]+)"', state)
    await provider.revoke(refresh_token)
    file.write_text(re.sub(r'"expires_at": \d+', '"expires_at": 1', state))
    scheme, _, host = terminal.facade.origin.partition("://")
    told = await terminal.run("git", "credential", "fill", text=f"protocol={scheme}\nhost={host}\n\n", status=128)
    assert f"sign in again: towpath login {terminal.facade.origin}" in told
