"""The real git and git-lfs with `git-credential-towpath`, after a sign-in at a real provider in a real browser."""

import asyncio
import json
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.browser import Browser, running_browser
from tests.support.git import Clone, Workspace, shared_repository
from tests.support.http import Client, content
from tests.support.oidc_provider import OidcProvider
from tests.support.programs import PATH
from tests.support.sign_in import address_in, sign_in
from tests.support.stack import TOWPATH, Stack
from tests.support.waiting import STEP_SECONDS, until_answer

ISSUER = "helper-sso"
GROUP = "helper-artists"
USER = f"alice@{ISSUER}"
"""There is a user alice already, who is somebody else."""


@pytest.fixture(scope="module")
def issuer(stack: Stack, provider: OidcProvider) -> Iterator[None]:
    """The provider is an issuer of the stack, and its group may write in the demo repository."""
    client = ("--client-id", provider.client_id, "--groups-claim", "groups")
    stack.towpath("issuer", "add", ISSUER, "--issuer", provider.url, *client)
    stack.towpath("group", "add", GROUP)
    stack.towpath("grant", GROUP, "demo/assets", "--role", "write", "--group")
    stack.towpath("issuer", "map", ISSUER, "/film/artists", GROUP)
    yield
    stack.towpath("issuer", "remove", ISSUER)
    stack.towpath("group", "remove", GROUP, "--yes")


@dataclass
class Person:
    """A computer whose git has a credential store, and asks `git-credential-towpath` after it."""

    computer: Workspace
    stack: Stack

    @property
    def store(self) -> Path:
        """The file of git's credential store."""
        return self.computer.home / "credentials"

    @property
    def sign_ins(self) -> Path:
        """The file of the sign-ins."""
        return self.computer.home / ".config/towpath/sign-ins.json"

    @property
    def signed_in(self) -> dict[str, Any]:
        """The sign-in at the stack, as the helper keeps it."""
        found: dict[str, Any] = json.loads(self.sign_ins.read_text())[self.stack.origin]
        return found

    def let_expire(self) -> None:
        """Let the kept token be one that has expired, also for the helper."""
        self.sign_ins.write_text(json.dumps({self.stack.origin: {**self.signed_in, "expires_at": 1}}))

    async def revoke(self) -> None:
        """End the token at the server, of which the helper hears nothing."""
        token = self.signed_in["token"]
        listed = await asyncio.to_thread(self.stack.towpath, "token", "list", USER)
        names = [entry["name"] for entry in listed if entry["issuer"] == ISSUER]
        assert names
        for name in names:
            await asyncio.to_thread(self.stack.towpath, "token", "revoke", USER, name, "--yes")
        await until_answer(401, partial(self.asked, token))

    async def asked(self, token: str) -> int:
        """Return the status of a request with a token."""
        async with Client(self.stack.base_url, USER, token) as client:
            return (await client.locks()).status_code

    async def towpath(self, *arguments: str) -> asyncio.subprocess.Process:
        """Start a command."""
        return await asyncio.create_subprocess_exec(
            *(*TOWPATH, *arguments),
            env=self.computer.environment,
            cwd=self.computer.home,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )

    async def login(self, browser: Browser) -> None:
        """Sign in by `towpath login`."""
        process = await self.towpath("login", self.stack.origin, "--issuer", ISSUER)
        await browser.open(await address_in(process))
        await sign_in(browser, "alice")
        printed, errors = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
        assert process.returncode == 0, errors.decode()
        assert USER in printed.decode()

    async def logout(self) -> str:
        """Run `towpath logout`, and return what it says on the standard error."""
        process = await self.towpath("logout", self.stack.origin)
        _, errors = await asyncio.wait_for(process.communicate(), STEP_SECONDS)
        assert process.returncode == 0, errors.decode()
        return errors.decode()

    def found_in(self, secret: str) -> list[Path]:
        """Return the files in the home folder that have a secret."""
        files = (path for path in self.computer.home.rglob("*") if path.is_file())
        return [path for path in files if secret.encode() in path.read_bytes()]


@pytest.fixture
async def person(tmp_path: Path, stack: Stack, issuer: None, browser: Browser) -> Person:
    """A person who has signed in."""
    assert issuer is None
    computer = Workspace(tmp_path / "person", "alice", None, origin=stack.origin)
    programs = tmp_path / "bin"
    programs.mkdir()
    # The program of this checkout, under the name by which git looks for it.
    helper = programs / "git-credential-towpath"
    helper.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m services.cli.sign_in.credential_helper "$@"\n')
    helper.chmod(0o755)
    computer.environment |= {"PATH": os.pathsep.join((str(programs), PATH)), "PYTHONPATH": os.pathsep.join(sys.path)}
    person = Person(computer, stack)
    computer.git("config", "--global", "credential.helper", f"store --file={person.store}")
    computer.git("config", "--global", f"credential.{stack.origin}.helper", "towpath")
    await person.login(browser)
    return person


@pytest.fixture
def clone(person: Person, remote: Path) -> Clone:
    """The person's clone of a shared repository."""
    return shared_repository(person.computer, remote, lfs_url=person.stack.base_url)


def _pushes(clone: Clone, name: str, *, check: bool = True) -> str:
    clone.commit({name: content(f"{clone.path} {name}", 20_000)})
    pushed = clone.git("push", "origin", "main", check=check)
    assert (pushed.returncode == 0) is check
    return pushed.stderr


def test_people_push_clone_and_lock_without_a_prompt(person: Person, clone: Clone, remote: Path) -> None:
    """After the sign-in, the helper answers for everything that the client asks."""
    # The helper alone has the token.
    person.store.unlink()
    _pushes(clone, "a.dat")
    again = person.computer.clone(remote, lfs_url=person.stack.base_url)
    assert (again.path / "a.dat").read_bytes() == (clone.path / "a.dat").read_bytes()
    again.fsck()
    again.lfs("lock", "a.dat")
    locks = json.loads(clone.lfs("locks", "--verify", "--json").stdout)
    assert [lock["owner"]["name"] for lock in locks["ours"]] == [USER]
    clone.lfs("unlock", "a.dat")


@pytest.mark.parametrize(
    "is_known",
    [
        pytest.param(True, id="which the helper knows", marks=pytest.mark.drill),
        pytest.param(False, id="which the server tells"),
    ],
)
async def test_an_expired_token_is_replaced_within_the_push(
    person: Person, clone: Clone, provider: OidcProvider, *, is_known: bool
) -> None:
    """The helper gets a new token by its refresh token, also when the credential store still has the old one."""
    before = person.signed_in
    assert before["token"] in person.store.read_text()
    await person.revoke()
    if is_known:
        person.store.unlink()
        person.let_expire()
    await asyncio.to_thread(_pushes, clone, "expired.dat")
    after = person.signed_in
    assert after["token"] != before["token"]
    assert person.found_in(before["token"]) == []
    assert after["token"] in person.store.read_text()
    assert await provider.accepts(after["refresh_token"])


@pytest.mark.drill
async def test_an_ended_sign_in_ends_the_push(
    person: Person, clone: Clone, provider: OidcProvider, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Once the provider has ended the sign-in, a push fails and says what to do, after which it succeeds."""
    await provider.revoke(person.signed_in["refresh_token"])
    await person.revoke()
    person.let_expire()
    told = await asyncio.to_thread(_pushes, clone, "ended.dat", check=False)
    assert f"sign in again: towpath login {person.stack.origin}" in told
    assert "terminal prompts disabled" in told
    assert person.stack.origin.partition("://")[2] not in person.store.read_text()
    async with running_browser(tmp_path_factory.mktemp("browser")) as another:
        await person.login(another)
    await asyncio.to_thread(_pushes, clone, "again.dat")


async def test_a_logout_leaves_nothing(person: Person, clone: Clone, provider: OidcProvider) -> None:
    """No token is left on the computer, the server accepts the last one no more, and neither does the provider."""
    await asyncio.to_thread(_pushes, clone, "a.dat")
    last = person.signed_in
    assert person.found_in(last["token"])
    assert await person.asked(last["token"]) == 200
    assert await person.logout() == ""
    await until_answer(401, partial(person.asked, last["token"]))
    assert person.found_in(last["token"]) + person.found_in(last["refresh_token"]) == []
    assert person.store.read_text() == ""
    assert not await provider.accepts(last["refresh_token"])
    assert "terminal prompts disabled" in await asyncio.to_thread(_pushes, clone, "b.dat", check=False)
