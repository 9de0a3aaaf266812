"""A real Keycloak with a realm, which `make programs` brings by Maven where it can."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.support.ports import free_ports
from tests.support.programs import PATH, needed
from tests.support.waiting import START_SECONDS, STEP_SECONDS, until

USER = "alice"
PASSWORD = "wonderland"
GROUP = "/film/artists"
_REALM: dict[str, Any] = {
    "realm": "studio",
    "enabled": True,
    "sslRequired": "none",
    "groups": [{"name": "film", "subGroups": [{"name": "artists"}]}],
    "users": [
        {
            "username": USER,
            "enabled": True,
            "email": "alice@example.org",
            "emailVerified": True,
            "firstName": "Alice",
            "lastName": "Liddell",
            "credentials": [{"type": "password", "value": PASSWORD}],
            "groups": [GROUP],
        }
    ],
    "clients": [
        {
            "clientId": "towpath",
            "publicClient": True,
            "standardFlowEnabled": False,
            "directAccessGrantsEnabled": True,
            "attributes": {"oauth2.device.authorization.grant.enabled": "true"},
            "protocolMappers": [
                {
                    "name": "groups",
                    "protocol": "openid-connect",
                    "protocolMapper": "oidc-group-membership-mapper",
                    "config": {"claim.name": "groups", "full.path": "true", "id.token.claim": "true"},
                }
            ],
        }
    ],
}


class Keycloak:
    """Its realm: alice is in a group, and has not the role by which Keycloak gives the scope `offline_access`."""

    client_id = "towpath"

    def __init__(self, origin: str, http: httpx.AsyncClient, password: str) -> None:
        self.url = f"{origin}/realms/studio"
        self._admin = f"{origin}/admin/realms"
        self._origin = origin
        self._http = http
        self._password = password

    async def tokens(self) -> dict[str, str]:
        """Return the tokens that alice gets for the password."""
        fields = {"client_id": self.client_id, "username": USER, "password": PASSWORD, "scope": "openid"}
        return await self._grant(self.url, fields)

    async def create_realm(self) -> None:
        """Make the realm."""
        (await self._http.post(self._admin, json=_REALM, headers=await self._headers())).raise_for_status()

    @asynccontextmanager
    async def returning_to(self, address: str) -> AsyncIterator[None]:
        """Let the client sign people in by a code with a challenge, and lead them to an address, in the block."""
        headers, url = await self._headers(), f"{self._admin}/studio/clients"
        found = await self._http.get(url, params={"clientId": self.client_id}, headers=headers)
        [client] = found.raise_for_status().json()
        challenged = {**client["attributes"], "pkce.code.challenge.method": "S256"}
        changed = {"standardFlowEnabled": True, "redirectUris": [address], "attributes": challenged}
        answer = await self._http.put(f"{url}/{client['id']}", json={**client, **changed}, headers=headers)
        answer.raise_for_status()
        try:
            yield
        finally:
            # Keycloak keeps an attribute that is not named.
            emptied = {**client["attributes"], "pkce.code.challenge.method": ""}
            restored = {**client, "attributes": emptied}
            answer = await self._http.put(f"{url}/{client['id']}", json=restored, headers=await self._headers())
            answer.raise_for_status()

    async def rotate(self) -> None:
        """Add a key, with which the realm signs at once."""
        headers = await self._headers()
        realm = (await self._http.get(f"{self._admin}/studio", headers=headers)).raise_for_status().json()
        config = {"priority": ["200"], "enabled": ["true"], "active": ["true"], "algorithm": ["RS256"]}
        provider = {"name": "new", "providerId": "rsa-generated", "providerType": "org.keycloak.keys.KeyProvider"}
        body = {**provider, "parentId": realm["id"], "config": config}
        answer = await self._http.post(f"{self._admin}/studio/components", json=body, headers=headers)
        answer.raise_for_status()

    async def _headers(self) -> dict[str, str]:
        fields = {"client_id": "admin-cli", "username": "admin", "password": self._password}
        given = await self._grant(f"{self._origin}/realms/master", fields)
        return {"Authorization": f"Bearer {given['access_token']}"}

    async def _grant(self, realm: str, fields: dict[str, str]) -> dict[str, str]:
        url = f"{realm}/protocol/openid-connect/token"
        answer = await self._http.post(url, data={"grant_type": "password", **fields})
        given: dict[str, str] = answer.raise_for_status().json()
        return given


@asynccontextmanager
async def running_keycloak(folder: Path) -> AsyncIterator[Keycloak]:
    """Run Keycloak with a database in memory until the block ends; its log goes into the folder."""
    program = needed("keycloak")
    [port] = free_ports(1)
    origin, password = f"http://127.0.0.1:{port}", secrets.token_urlsafe()
    environment = {
        "PATH": PATH,
        "KC_BOOTSTRAP_ADMIN_USERNAME": "admin",
        "KC_BOOTSTRAP_ADMIN_PASSWORD": password,
        "JAVA_OPTS_APPEND": "-Xmx768m",
    }
    options = ["--http-host=127.0.0.1", f"--http-port={port}", "--cache=local", "--db=dev-mem"]
    with (folder / "keycloak.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            program, "start-dev", *options, env=environment, stdout=log, stderr=asyncio.subprocess.STDOUT
        )
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:

            async def is_ready() -> bool:
                assert process.returncode is None, (folder / "keycloak.log").read_text()
                try:
                    return (await http.get(f"{origin}/realms/master")).status_code == 200
                except httpx.TransportError:
                    return False

            await until(is_ready, "Keycloak", seconds=START_SECONDS)
            keycloak = Keycloak(origin, http, password)
            await keycloak.create_realm()
            yield keycloak
    finally:
        process.terminate()
        await process.wait()
