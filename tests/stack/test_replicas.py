"""Two of each service answer as one."""

import asyncio
import ssl
from collections import Counter

import httpx
import pytest

from tests.stack.compose import SERVICES, ComposeStack, docker, restart_one_by_one
from tests.stack.work import CREW, REPOSITORY
from tests.support.certificates import CertificateFiles
from tests.support.event_stream import Follower
from tests.support.http import Client, content, oid_of
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS
from tests.support.watchers import Crowd

ROUNDS = 20
CREATORS = 50
WATCHERS = 300
CHANGES = 1_000
WORKERS = 20
PAUSE_SECONDS = 1.0


async def test_one_lock_among_many_creators(doubled: ComposeStack, tokens: dict[str, str]) -> None:
    """Twenty rounds of fifty creators, spread over both facades: one winner each, who is named to the others."""
    bases = [f"http://{doubled.address('facade', 8080, index=index)}/{REPOSITORY}" for index in (1, 2)]
    assert len(set(bases)) == 2
    clients = [Client(bases[number % 2], name := CREW[number % len(CREW)], tokens[name]) for number in range(CREATORS)]
    try:
        for round_ in range(ROUNDS):
            answers = await asyncio.gather(*(client.lock(f"race/{round_}.dat") for client in clients))
            assert Counter(answer.status_code for answer in answers) == {201: 1, 409: CREATORS - 1}
            [winner] = [answer.json()["lock"] for answer in answers if answer.status_code == 201]
            assert all(answer.json()["lock"] == winner for answer in answers)
    finally:
        for client in clients:
            await client.http.aclose()


async def test_both_take_their_part(doubled: ComposeStack, tokens: dict[str, str]) -> None:
    """Both lock services, both storage services and both facades are asked."""
    name = CREW[0]
    before = {id_: len(_calls(id_)) for service in ("storage", "locks") for id_ in doubled.containers(service)}
    for index in (1, 2):
        base = f"http://{doubled.address('facade', 8080, index=index)}/{REPOSITORY}"
        async with Client(base, name, tokens[name]) as client:
            for number in range(10):
                data = content(f"parts {index} {number}", 1000)
                assert (await client.upload(data)).status_code == 200
                assert (await client.download(oid_of(data), len(data))).content == data
    for id_, count in before.items():
        assert len(_calls(id_)) > count


@pytest.mark.timeout(LONG_SECONDS * 2)
async def test_watchers_while_all_services_roll(
    doubled: ComposeStack, tokens: dict[str, str], certificates: CertificateFiles
) -> None:
    """Three hundred watchers behind the proxy hear of each of a thousand changes once, while all services restart."""
    base = f"https://{doubled.address('proxy', 8443)}/{REPOSITORY}"
    trust = ssl.create_default_context(cafile=str(certificates.authority))
    followers = [
        Follower(f"{base}/locks/events", {"Authorization": f"Bearer {tokens[CREW[number % len(CREW)]]}"})
        for number in range(WATCHERS)
    ]
    crowd = Crowd(followers, [])
    clients = [Client(base, name, tokens[name], verify=trust) for name in CREW]

    async def work() -> None:
        async with asyncio.TaskGroup() as group:
            for worker in range(WORKERS):
                client = clients[worker % len(clients)]
                name = f"roll {worker}"
                group.create_task(crowd.change(client, name, CHANGES // WORKERS, pause_seconds=PAUSE_SECONDS))
            for service in SERVICES:
                await asyncio.to_thread(restart_one_by_one, doubled, service)

    limits = httpx.Limits(max_connections=None)
    try:
        async with httpx.AsyncClient(timeout=STEP_SECONDS, limits=limits, trust_env=False, verify=trust) as http:
            await crowd.watch(http, work)
    finally:
        for client in clients:
            await client.http.aclose()
    assert len(crowd.made) == CHANGES
    crowd.check()


def _calls(container: str) -> list[str]:
    return [line for line in docker("logs", container).splitlines() if '"event":"call"' in line]
