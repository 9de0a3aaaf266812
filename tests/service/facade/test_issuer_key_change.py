"""An issuer changes its keys while clients work, through two facades with a lock service of their own each."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from joserfc.jwk import RSAKey

from tests.service.facade.conftest import Inner, Place
from tests.service.locks.issuers import add_issuer, allow
from tests.support.facade import RunningFacade, running_facade
from tests.support.http import Client
from tests.support.issuer import Issuer
from tests.support.locks import serving_locks

REF = "refs/heads/main"
CLIENTS = 4
ROUNDS = 20


@pytest.fixture
async def facades(inner: Inner, tmp_path: Path) -> AsyncIterator[list[RunningFacade]]:
    """Two facades, each in front of a lock service that knows no keys; the database is one."""
    async with AsyncExitStack() as stack:
        running = []
        for name in ("first", "second"):
            address = await stack.enter_async_context(
                serving_locks(inner.locks.database_url, tmp_path, storage_address=inner.storage.address, name=name)
            )
            running.append(await stack.enter_async_context(running_facade(inner.storage.address, address)))
        yield running


async def test_keys_change_while_clients_ask(place: Place, facades: list[RunningFacade], issuer: Issuer) -> None:
    """Nobody honest is refused, by the new key or the one before; each service reads the keys once more only."""
    name = f"rotating-{place.repository_id}"
    await add_issuer(place.inner.locks, issuer, name)
    await allow(place.inner.locks, name, place.name, {"repository": "acme/film"})
    old = Issuer(issuer.url)
    old.keys = list(issuer.keys)

    async def status(number: int, token: str) -> int:
        base_url = f"{facades[number % len(facades)].origin}/{place.name}"
        async with Client(base_url, "ci", token, ref=REF) as client:
            return (await client.batch("upload", ("0" * 64, 1))).status_code

    async def ask(number: int) -> list[int]:
        statuses = []
        for turn in range(ROUNDS):
            if (number, turn) == (0, ROUNDS // 2):
                issuer.keys.append(RSAKey.generate_key(2048, {"kid": "second", "use": "sig"}))
            # A job that began before the change shows its token after it.
            signer = old if turn % 3 == 0 else issuer
            token = signer.token(repository="acme/film", ref=REF, jti=f"{number}-{turn}")
            statuses.append(await status(number, token))
        return statuses

    for found in await asyncio.gather(*map(ask, range(CLIENTS))):
        assert found == [200] * ROUNDS
    # Each service has read the keys when it began, and when the new one appeared.
    assert issuer.key_readings == 2 * len(facades)

    made_up = [issuer.token(repository="acme/film", ref=REF, header={"kid": f"made-up-{n}"}) for n in range(CLIENTS)]
    assert await asyncio.gather(*(status(n, token) for n, token in enumerate(made_up))) == [429] * CLIENTS
    assert await status(0, issuer.token(repository="acme/film", ref=REF, jti="at last")) == 200
    assert issuer.key_readings == 2 * len(facades)
