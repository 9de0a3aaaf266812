"""Two of each service answer as one."""

import asyncio
from collections import Counter

from tests.stack.compose import ComposeStack, docker
from tests.stack.work import CREW, REPOSITORY
from tests.support.http import Client, content, oid_of

ROUNDS = 20
CREATORS = 50


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


def _calls(container: str) -> list[str]:
    return [line for line in docker("logs", container).splitlines() if '"event":"call"' in line]
