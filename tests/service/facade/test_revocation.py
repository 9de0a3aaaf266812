"""Revocations, effective within a second whatever fails, at two facades and two lock services, as processes.

No answer has a deadline: the guarantee is that no request is let in that was sent later than a second after the change
was acknowledged.
"""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from sqlalchemy.engine import make_url
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from services.common.rpc.client import ServiceClient
from tests.support.http import MEDIA_TYPE
from tests.support.locks import running_locks
from tests.support.ports import free_ports
from tests.support.postgres import TestPostgres, running_postgres
from tests.support.service_process import service_process, standing_still
from tests.support.waiting import STEP_SECONDS, until

SIGNING_KEY = "a key that signs nothing outside of this test"
SECRET = "what the services show each other in this test"
PROMISED_SECONDS = 1.0
WATCHED_SECONDS = 1.5
REF = "refs/heads/main"
REPOSITORY = "studio/film"
REVOKE = "DELETE FROM locks.tokens WHERE name LIKE 'laptop%'"

_LISTENING = "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_trigger%' AND application_name = 'towpath-locks'"


def _http() -> httpx.AsyncClient:
    # Nothing is verified over HTTP, and to prepare for it takes longer than the request.
    return httpx.AsyncClient(trust_env=False, verify=False, timeout=STEP_SECONDS)  # noqa: S501 - see above


@dataclass(frozen=True)
class Answer:
    """The status of a request, the time when it was sent, by both clocks, and the time when its answer came."""

    sent: float
    sent_at: float
    came_at: float
    status: int


@dataclass
class Site:
    """Two facades and two lock services before one Postgres; alice writes in a repository."""

    postgres: TestPostgres
    database_url: SecretStr
    admin_token: str
    folder: Path
    running: ExitStack
    ports: list[int] = field(default_factory=lambda: free_ports(6))
    locks: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)
    token: str = ""

    @property
    def facades(self) -> list[str]:
        """The origins of the facades."""
        return [f"http://127.0.0.1:{port}" for port in self.ports[2:4]]

    async def sql(self, statement: str) -> str:
        """Run a statement, as an operator with psql."""
        database = make_url(self.database_url.get_secret_value()).database or ""
        return await self.postgres.execute(statement, database=database)

    def start_locks(self, number: int) -> None:
        """Start one of the lock services."""
        settings = {
            "locks_listen": f"127.0.0.1:{self.ports[number]}",
            "locks_database_url": self.database_url.get_secret_value(),
            "storage_address": f"unix:{self.folder / 'nobody'}",
            "service_secret": SECRET,
            "drain_seconds": 0.5,
        }
        process = service_process("locks", self.folder / f"locks-{time.monotonic_ns()}.log", settings=settings)
        self.locks[number] = self.running.enter_context(process)

    def kill_locks(self, number: int) -> None:
        """Kill one of them."""
        self.locks[number].kill()
        self.locks[number].wait(STEP_SECONDS)

    def start_facade(self, number: int) -> None:
        """Start one of the facades."""
        settings = {
            "listen": f"127.0.0.1:{self.ports[2 + number]}",
            "facade_metrics_listen": f"127.0.0.1:{self.ports[4 + number]}",
            "storage_address": f"unix:{self.folder / 'nobody'}",
            "locks_address": f"ipv4:127.0.0.1:{self.ports[0]},127.0.0.1:{self.ports[1]}",
            "service_secret": SECRET,
            "signing_key": SIGNING_KEY,
            "rpc_seconds": 8,
            "failed_logins": "1000000/hour",
        }
        self.running.enter_context(service_process("facade", self.folder / f"facade-{number}.log", settings=settings))

    async def prepare(self) -> None:
        """Give alice a new token and her grant, and the repository its name; return when both facades remember her."""
        await self.sql(f"UPDATE locks.repositories SET name = '{REPOSITORY}'")  # noqa: S608 - our own words
        await self.sql("INSERT INTO locks.users (name, administrator) VALUES ('alice', false) ON CONFLICT DO NOTHING")
        await self.sql("DELETE FROM locks.grants")
        peer = ServiceClient(f"127.0.0.1:{self.ports[0]}", deadline=STEP_SECONDS, secret=SecretStr(self.admin_token))
        stub = AdminServiceStub(peer.channel)
        try:
            grant = admin.GrantAccessRequest(user_name="alice", repository=REPOSITORY, role=admin.ROLE_WRITE)
            await peer.call(stub.GrantAccess, grant)
            token = admin.CreateTokenRequest(user_name="alice", name=f"laptop-{time.monotonic_ns()}")
            self.token = (await peer.call(stub.CreateToken, token)).secret
        finally:
            await peer.close()
        for facade in self.facades:
            await until(partial(self.serves, facade))
        await self.remembered()

    async def remembered(self) -> None:
        """Ask until both facades answer from memory."""
        async with asyncio.timeout(STEP_SECONDS):
            for number, facade in enumerate(self.facades):
                before = await self.from_memory(number)
                while await self.from_memory(number) < before + 6:
                    assert (await self.ask(facade)).status == 200

    async def from_memory(self, number: int) -> float:
        """Return how many questions a facade has answered from memory."""
        async with _http() as http:
            text = (await http.get(f"http://127.0.0.1:{self.ports[4 + number]}/metrics")).text
        samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
        return sum(
            sample.value
            for sample in samples
            if sample.name == "towpath_access_answers_total" and sample.labels["source"] == "memory"
        )

    async def ask(self, facade: str) -> Answer:
        """Ask for the upload of nothing, which needs to write on the ref, and nothing else of the inner services."""
        sent, sent_at = time.monotonic(), time.time()
        headers = {"Authorization": f"Bearer {self.token}", "Accept": MEDIA_TYPE, "Content-Type": MEDIA_TYPE}
        async with _http() as http:
            body = {"operation": "upload", "objects": [], "ref": {"name": REF}}
            response = await http.post(f"{facade}/{REPOSITORY}/objects/batch", json=body, headers=headers)
        return Answer(sent, sent_at, time.time(), response.status_code)

    async def serves(self, facade: str) -> bool:
        """Tell whether a facade lets alice in."""
        try:
            return (await self.ask(facade)).status == 200
        except httpx.TransportError:
            return False

    async def asked_all_along(
        self, until_when: Callable[[], bool], *, asked: list[asyncio.Task[Answer]] | None = None
    ) -> list[Answer]:
        """Ask both facades again and again, whether they answer or not; return all answers to what was sent.

        `asked` tells who was asked so far.
        """
        asked = [] if asked is None else asked
        while not until_when():
            asked += [asyncio.create_task(self.ask(facade)) for facade in self.facades]
            # The rate at which they are asked.
            await asyncio.sleep(0.03)
        return await asyncio.gather(*asked)


async def _refused_a_second_after(site: Site, change: Callable[[], Awaitable[object]]) -> list[Answer]:
    """Change something while requests go on; return the answers to those that were sent too late to be let in."""
    acknowledged: list[float] = []
    asked: list[asyncio.Task[Answer]] = []
    # What is promised holds from the second second on, and a while after that.
    asking = asyncio.create_task(
        site.asked_all_along(
            lambda: bool(acknowledged) and time.monotonic() > acknowledged[0] + PROMISED_SECONDS + WATCHED_SECONDS,
            asked=asked,
        )
    )
    await until(lambda: any(task.done() and task.result().status == 200 for task in asked), "somebody is let in")
    await change()
    acknowledged.append(time.monotonic())
    answers = await asking
    late = [answer for answer in answers if answer.sent > acknowledged[0] + PROMISED_SECONDS]
    assert late
    return late


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """The processes; Postgres is one of its own, which a test may stop."""
    folder = tmp_path_factory.mktemp("site")
    async with running_postgres() as postgres, postgres.database() as database_url:
        async with running_locks(database_url, folder) as locks:
            await locks.add_repository(REPOSITORY)
        with ExitStack() as running:
            site = Site(postgres, database_url, locks.admin_token, folder, running)
            for number in range(2):
                site.start_locks(number)
                site.start_facade(number)
            yield site


WAYS = {
    "a token that is revoked": (REVOKE, 401),
    "a token that expires earlier": ("UPDATE locks.tokens SET expires_at = now() WHERE name LIKE 'laptop%'", 401),
    "a grant that is taken": ("DELETE FROM locks.grants", 404),
    "a role that is less": ("UPDATE locks.grants SET role = 'read'", 403),
    "a ref that is not meant any more": ("UPDATE locks.grants SET ref_patterns = '{refs/heads/other}'", 403),
    "a user who is removed": ("DELETE FROM locks.users WHERE name = 'alice'", 401),
    "a repository that is renamed": ("UPDATE locks.repositories SET name = 'another/name'", 404),
    "all grants at once": ("TRUNCATE locks.grants", 404),
}
# Alice writes by a group only.
GROUP = (
    "WITH made AS (INSERT INTO locks.groups (name) VALUES ('artists') RETURNING id), "
    "joined AS (INSERT INTO locks.group_members (group_id, user_id) "
    "SELECT made.id, users.id FROM made, locks.users WHERE users.name = 'alice'), "
    "granted AS (INSERT INTO locks.group_grants (group_id, repository_id, role) "
    "SELECT made.id, repositories.id, 'write' FROM made, locks.repositories) "
    "DELETE FROM locks.grants"
)
GROUP_WAYS = {
    "a member who is removed": ("DELETE FROM locks.group_members", 404),
    "a grant of a group that is taken": ("DELETE FROM locks.group_grants", 404),
    "a role of a group that is less": ("UPDATE locks.group_grants SET role = 'read'", 403),
    "a group that is removed": ("DELETE FROM locks.groups", 404),
}


@pytest.mark.parametrize("way", WAYS)
async def test_gone_within_a_second(site: Site, way: str) -> None:
    """By whatever change, done by hand in the database."""
    await site.prepare()
    statement, status = WAYS[way]
    late = await _refused_a_second_after(site, lambda: site.sql(statement))
    assert {answer.status for answer in late} == {status}


@pytest.mark.parametrize("way", GROUP_WAYS)
async def test_what_a_group_gives_is_gone_within_a_second(site: Site, way: str) -> None:
    """The same for the access of a member."""
    await site.prepare()
    await site.sql(GROUP)
    try:
        await site.remembered()
        statement, status = GROUP_WAYS[way]
        late = await _refused_a_second_after(site, lambda: site.sql(statement))
        assert {answer.status for answer in late} == {status}
    finally:
        await site.sql("DELETE FROM locks.groups")


async def test_an_expired_token_is_refused_at_its_time(site: Site) -> None:
    """Nothing changes then that anybody could tell of."""
    await site.prepare()
    await site.sql("UPDATE locks.tokens SET expires_at = now() + interval '15 seconds' WHERE name LIKE 'laptop%'")
    expires_at = float(await site.sql("SELECT extract(epoch FROM max(expires_at)) FROM locks.tokens"))
    await site.remembered()
    asked: list[asyncio.Task[Answer]] = []
    answers = await site.asked_all_along(
        lambda: any(task.done() and task.result().sent_at > expires_at + 0.5 for task in asked), asked=asked
    )
    assert {answer.status for answer in answers if answer.came_at < expires_at} == {200}
    assert {answer.status for answer in answers if answer.sent_at > expires_at} == {401}


async def _listening(site: Site) -> list[int]:
    pids = [int(pid) for pid in (await site.sql(_LISTENING)).split()]
    assert len(pids) == 2
    return pids


async def test_gone_though_nothing_is_heard(site: Site) -> None:
    """The connections that listen hang, while all others work: nobody can tell, so everybody asks."""
    await site.prepare()
    with standing_still(await _listening(site)):
        late = await _refused_a_second_after(site, lambda: site.sql(REVOKE))
    assert {answer.status for answer in late} == {401}
    await site.prepare()


async def test_gone_though_the_connections_are_cut(site: Site) -> None:
    """In the midst of it: what is missed is not taken for nothing."""
    await site.prepare()

    async def change() -> None:
        cut = f"SELECT count(pg_terminate_backend(pid)) FROM ({_LISTENING}) AS listening"  # noqa: S608 - our own words
        assert await site.sql(f"BEGIN; {cut}; {REVOKE}; COMMIT") == "2"

    late = await _refused_a_second_after(site, change)
    assert {answer.status for answer in late} == {401}
    await site.prepare()


async def test_gone_though_one_lock_service_is_killed(site: Site) -> None:
    """The other one tells it."""
    await site.prepare()

    async def change() -> None:
        await asyncio.to_thread(site.kill_locks, 1)
        await site.sql(REVOKE)

    late = await _refused_a_second_after(site, change)
    site.start_locks(1)
    assert {answer.status for answer in late} == {401}
    await site.prepare()


@pytest.mark.parametrize("end", ["killed", "stopped"])
async def test_nobody_is_let_in_where_no_lock_service_answers(site: Site, end: str) -> None:
    """A revocation may have been; when they answer again, all goes on."""
    await site.prepare()

    async def change() -> None:
        if end == "killed":
            await asyncio.gather(*(asyncio.to_thread(site.kill_locks, number) for number in range(2)))
        await site.sql(REVOKE)

    with standing_still(process.pid for process in site.locks.values() if end == "stopped"):
        late = await _refused_a_second_after(site, change)
    if end == "killed":
        for number in range(2):
            site.start_locks(number)
    assert 200 not in {answer.status for answer in late}
    await site.prepare()


async def test_nobody_is_let_in_while_postgres_stands_still(site: Site) -> None:
    """Nothing can be asked, and nothing is answered from memory for longer than a second."""
    await site.prepare()
    processes = await site.postgres.processes()
    with ExitStack() as held:

        async def change() -> None:
            held.enter_context(standing_still(processes))

        late = await _refused_a_second_after(site, change)
    assert 200 not in {answer.status for answer in late}
    await site.prepare()
