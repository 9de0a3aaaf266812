"""A real provider of OpenID Connect: oidc-provider, which `make programs` brings from npm."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx

from tests.support.ports import free_ports
from tests.support.programs import PATH, needed
from tests.support.waiting import STEP_SECONDS, until

_PROGRAM = Path(__file__).with_name("provider.mjs")


class OidcProvider:
    """Its URL. Everybody signs in with any password; alice is in the group `/film/artists`."""

    client_id = "towpath"

    def __init__(self, url: str) -> None:
        self.url = url

    async def rotate(self) -> None:
        """Let it sign with a new key; its key set has the earlier ones too."""
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            (await http.post(f"{self.url}/rotate")).raise_for_status()

    async def revoke(self, refresh_token: str) -> None:
        """End a refresh token."""
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            fields = {"token": refresh_token, "client_id": self.client_id}
            (await http.post(f"{self.url}/token/revocation", data=fields)).raise_for_status()

    async def accepts(self, refresh_token: str) -> bool:
        """Return whether a refresh token gives new tokens; one that was used is replaced by another."""
        fields = {"grant_type": "refresh_token", "refresh_token": refresh_token, "client_id": self.client_id}
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
            answer = await http.post(f"{self.url}/token", data=fields)
        assert answer.status_code == 200 or answer.json()["error"] == "invalid_grant"
        return answer.status_code == 200


@asynccontextmanager
async def running_provider(folder: Path) -> AsyncIterator[OidcProvider]:
    """Run a provider until the block ends; its log goes into the folder."""
    modules = needed("oidc-provider")
    [port] = free_ports(1)
    url = f"http://127.0.0.1:{port}"
    with (folder / "provider.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            "node", _PROGRAM, modules, str(port), stdout=log, stderr=asyncio.subprocess.STDOUT, env={"PATH": PATH}
        )

    async def is_ready() -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
                return (await http.get(f"{url}/.well-known/openid-configuration")).status_code == 200
        except httpx.ConnectError:
            assert process.returncode is None, (folder / "provider.log").read_text()
            return False

    try:
        await until(is_ready)
        yield OidcProvider(url)
    finally:
        process.kill()
        await process.wait()
