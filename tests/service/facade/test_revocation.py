"""Revocations, effective within a second whatever fails, at two facades and two lock services.

No answer has a deadline: the guarantee is that no request is let in that was sent later than a second after the change
was acknowledged. The drills measure the second, at processes; tests/unit/facade/auth/test_access_cache.py has the rule.
"""

import asyncio
import subprocess
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import httpx
import pytest
from prometheus_client import REGISTRY
from prometheus_client.parser import text_string_to_metric_families
from pydantic import SecretStr
from sqlalchemy.engine import make_url
from towpath.access.v1 import admin_service_pb2 as admin
from towpath.access.v1.admin_service_pb2_grpc import AdminServiceStub

from services.common.rpc.client import ServiceClient
from tests.service.facade import raw
from tests.service.facade.conftest import Inner, Place
from tests.support.facade import running_facade
from tests.support.http import MEDIA_TYPE, Client, content
from tests.support.locks import running_locks, serving_locks
from tests.support.ports import free_ports
from tests.support.postgres import TestPostgres, running_postgres
from tests.support.service_process import service_process, standing_still
from tests.support.waiting import STEP_SECONDS, until, until_answer

SIGNING_KEY = "a key that signs nothing outside of this test"
SECRET = "what the services show each other in this test"
PROMISED_SECONDS = 1.0
WATCHED_SECONDS = 1.5
REF = "refs/heads/main"
REPOSITORY = "studio/film"
REVOKE = "DELETE FROM locks.tokens WHERE name LIKE 'laptop%'"

_LISTENING = (
    "SELECT pid FROM pg_stat_activity WHERE query LIKE '%pg_trigger%' AND application_name = 'towpath-locks'"
    " AND datname = current_database()"
)
CUT = f"SELECT count(pg_terminate_backend(pid)) FROM ({_LISTENING}) AS listening"  # noqa: S608 - our own words


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
    """Two facades, by their origins, before two lock services and one Postgres; alice writes in a repository."""

    postgres: TestPostgres
    database_url: SecretStr
    admin_token: str
    locks_address: str
    facades: list[str]
    token: str = ""

    async def sql(self, statement: str) -> str:
        """Run a statement, as an operator with psql."""
        database = make_url(self.database_url.get_secret_value()).database or ""
        return await self.postgres.execute(statement, database=database)

    async def prepare(self, way: str = "") -> None:
        """Give alice a new token and her grant, and the repository its name; return when both facades remember her.

        Where the way is one of a group, she writes by a group only.
        """
        await self.sql(f"UPDATE locks.repositories SET name = '{REPOSITORY}'")  # noqa: S608 - our own words
        await self.sql("INSERT INTO locks.users (name, administrator) VALUES ('alice', false) ON CONFLICT DO NOTHING")
        await self.sql("DELETE FROM locks.grants")
        peer = ServiceClient(self.locks_address, deadline=STEP_SECONDS, secret=SecretStr(self.admin_token))
        stub = AdminServiceStub(peer.channel)
        try:
            grant = admin.GrantAccessRequest(user_name="alice", repository=REPOSITORY, role=admin.ROLE_WRITE)
            await peer.call(stub.GrantAccess, grant)
            token = admin.CreateTokenRequest(user_name="alice", name=f"laptop-{time.monotonic_ns()}")
            self.token = (await peer.call(stub.CreateToken, token)).secret
        finally:
            await peer.close()
        if way in GROUP_WAYS:
            await self.sql(GROUP)
        for facade in self.facades:
            await until(partial(self.serves, facade))
        await self.remembered()

    async def remembered(self) -> None:
        """Ask until both facades answer from memory."""
        async with asyncio.timeout(STEP_SECONDS):
            for number, facade in enumerate(self.facades):
                before = await self.from_memory(number)
                # Who she is, and what she may do.
                while await self.from_memory(number) < before + 2:
                    assert (await self.ask(facade)).status == 200

    async def from_memory(self, _number: int) -> float:
        """Return how many questions a facade has answered from memory; those of this process count together."""
        return sum(
            REGISTRY.get_sample_value("towpath_access_answers_total", {"question": question, "source": "memory"}) or 0
            for question in ("caller", "access")
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


@dataclass
class Processes(Site):
    """The same as processes, which a test may kill."""

    folder: Path = field(kw_only=True)
    running: ExitStack = field(kw_only=True)
    ports: list[int] = field(kw_only=True)
    locks: dict[int, subprocess.Popen[bytes]] = field(default_factory=dict)

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


async def _late_statuses(site: Site, change: Callable[[], Awaitable[object]]) -> set[int]:
    """Change something while requests go on; return the statuses of those that were sent too late to be let in."""
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
    late = {answer.status for answer in answers if answer.sent > acknowledged[0] + PROMISED_SECONDS}
    assert late
    return late


@pytest.fixture(scope="module")
async def site(postgres: TestPostgres, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Site]:
    """Each facade has a lock service of its own."""
    folder = tmp_path_factory.mktemp("site")
    nobody = f"unix:{folder / 'nobody'}"
    async with (
        postgres.database() as url,
        running_locks(url, folder) as first,
        serving_locks(url, folder, storage_address=nobody, name="second") as second,
        running_facade(nobody, first.address) as one,
        running_facade(nobody, second) as other,
    ):
        await first.add_repository(REPOSITORY)
        yield Site(postgres, url, first.admin_token, first.address, [one.origin, other.origin])


@pytest.fixture(scope="module")
async def processes(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Processes]:
    """The processes; Postgres is one of its own, which a test may stop."""
    folder = tmp_path_factory.mktemp("site")
    async with running_postgres() as postgres, postgres.database() as database_url:
        async with running_locks(database_url, folder) as locks:
            await locks.add_repository(REPOSITORY)
        ports = free_ports(6)
        facades = [f"http://127.0.0.1:{port}" for port in ports[2:4]]
        with ExitStack() as running:
            site = Processes(
                postgres,
                database_url,
                locks.admin_token,
                f"127.0.0.1:{ports[0]}",
                facades,
                folder=folder,
                running=running,
                ports=ports,
            )
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


async def _listening(site: Site) -> list[int]:
    pids = [int(pid) for pid in (await site.sql(_LISTENING)).split()]
    assert len(pids) == 2
    return pids


async def _is_refused_everywhere(site: Site, status: int) -> None:
    """Wait until each facade answers with this status."""
    for facade in site.facades:

        async def answered(facade: str = facade) -> int:
            return (await site.ask(facade)).status

        await until_answer(status, answered)


@pytest.mark.parametrize("way", [*WAYS, *GROUP_WAYS])
async def test_a_change_ends_what_facades_answer_from_memory(site: Site, way: str) -> None:
    """Facades that answer from memory refuse soon after an access is taken away, by whatever change of the tables."""
    await site.prepare(way)
    statement, status = {**WAYS, **GROUP_WAYS}[way]
    try:
        await site.sql(statement)
        await _is_refused_everywhere(site, status)
    finally:
        await site.sql("DELETE FROM locks.groups")


async def test_lock_services_that_hear_nothing_vouch_for_nothing(site: Site) -> None:
    """While the connections that listen for changes hang, or after they are cut, facades ask and refuse."""
    await site.prepare()
    with standing_still(await _listening(site)):
        await site.sql(REVOKE)
        await _is_refused_everywhere(site, 401)
    await site.prepare()
    await site.sql(f"BEGIN; {CUT}; {REVOKE}; COMMIT")
    await _is_refused_everywhere(site, 401)


async def _in_progress(
    inner: Inner, place: Place, token: str, change: Callable[[], Awaitable[object]], **settings: object
) -> tuple[bytes, int]:
    """Change something while a download and an upload of alice run; return what comes, and the upload's status."""
    data, sent = (content(f"{name} {place.name}", 20 * raw.MIB) for name in ("read", "sent"))
    oid = await inner.storage.write(place.repository_id, data)
    async with (
        inner.running_facade(**settings) as facade,
        Client(f"{facade.origin}/{place.name}", "alice", token) as alice,
        raw.connected(facade) as (reader, reading),
        raw.connected(facade) as (answer, writing),
    ):
        download, upload = await alice.offered("download", data), await alice.offered("upload", sent)
        reading.write(raw.head(download, "GET"))
        await reader.readuntil(b"\r\n\r\n")
        writing.write(raw.head(upload, "PUT", Content_Length=str(len(sent))) + sent[: raw.MIB])
        await until(lambda: REGISTRY.get_sample_value("towpath_http_requests_in_flight") == 2, "both have begun")
        await change()

        async def is_known() -> bool:
            return (await alice.batch("download", (oid, len(data)))).status_code != 200

        await until(is_known, "the facade has heard of it")
        writing.write(sent[raw.MIB :])
        came = b""
        with suppress(ConnectionError):
            while len(came) < len(data) and (part := await reader.read(raw.MIB)):
                came += part
        return came, (await raw.answer(answer))[0]


@pytest.mark.parametrize("way", ["shared disk", "storage"])
async def test_transfers_in_progress_end_with_their_access(inner: Inner, place: Place, way: str) -> None:
    """A slow client does not go on for days; a download never looks whole."""
    locks = inner.locks

    async def revoke() -> None:
        request = admin.RevokeAccessRequest(user_name="alice", repository=place.name)
        await locks.admin_peer.call(locks.admin.RevokeAccess, request)

    settings = {"shared_storage_path": inner.storage.root} if way == "shared disk" else {}
    came, status = await _in_progress(inner, place, inner.tokens["alice"], revoke, **settings)
    assert (len(came) < 20 * raw.MIB, status) == (True, 403)


async def test_transfers_in_progress_outlive_their_token(inner: Inner, place: Place, postgres: TestPostgres) -> None:
    """A token that only expires, as those of jobs and sessions soon do, takes nothing from a large transfer."""
    token = await inner.locks.add_token("alice", "short")
    expiry = "UPDATE locks.tokens SET expires_at = now() WHERE name = 'short'"
    came, status = await _in_progress(
        inner, place, token, lambda: postgres.execute(expiry, database=inner.locks.database)
    )
    assert (len(came), status) == (20 * raw.MIB, 200)


@pytest.mark.drill
@pytest.mark.parametrize("way", [*WAYS, *GROUP_WAYS])
async def test_gone_within_a_second(processes: Processes, way: str) -> None:
    """By whatever change, done by hand in the database."""
    await processes.prepare(way)
    statement, status = {**WAYS, **GROUP_WAYS}[way]
    try:
        assert await _late_statuses(processes, lambda: processes.sql(statement)) == {status}
    finally:
        await processes.sql("DELETE FROM locks.groups")


@pytest.mark.drill
async def test_an_expired_token_is_refused_at_its_time(processes: Processes) -> None:
    """Nothing changes then that anybody could tell of."""
    await processes.prepare()
    await processes.sql("UPDATE locks.tokens SET expires_at = now() + interval '15 seconds' WHERE name LIKE 'laptop%'")
    expires_at = float(await processes.sql("SELECT extract(epoch FROM max(expires_at)) FROM locks.tokens"))
    await processes.remembered()
    asked: list[asyncio.Task[Answer]] = []
    answers = await processes.asked_all_along(
        lambda: any(task.done() and task.result().sent_at > expires_at + 0.5 for task in asked), asked=asked
    )
    assert {answer.status for answer in answers if answer.came_at < expires_at} == {200}
    assert {answer.status for answer in answers if answer.sent_at > expires_at} == {401}


@pytest.mark.drill
async def test_gone_though_nothing_is_heard(processes: Processes) -> None:
    """The connections that listen hang, while all others work: nobody can tell, so everybody asks."""
    await processes.prepare()
    with standing_still(await _listening(processes)):
        assert await _late_statuses(processes, lambda: processes.sql(REVOKE)) == {401}
    await processes.prepare()


@pytest.mark.drill
async def test_gone_though_the_connections_are_cut(processes: Processes) -> None:
    """In the midst of it: what is missed is not taken for nothing."""
    await processes.prepare()

    async def change() -> None:
        assert await processes.sql(f"BEGIN; {CUT}; {REVOKE}; COMMIT") == "2"

    assert await _late_statuses(processes, change) == {401}
    await processes.prepare()


@pytest.mark.drill
@pytest.mark.parametrize(("numbers", "end"), [([1], "killed"), ([0, 1], "killed"), ([0, 1], "stopped")])
async def test_nobody_is_let_in_where_a_lock_service_ends(processes: Processes, numbers: list[int], end: str) -> None:
    """The other one tells of a revocation, and where there is none, one may have been; afterwards all goes on."""
    await processes.prepare()
    held = [processes.locks[number].pid for number in numbers if end == "stopped"]

    async def change() -> None:
        if end == "killed":
            await asyncio.gather(*(asyncio.to_thread(processes.kill_locks, number) for number in numbers))
        await processes.sql(REVOKE)

    with standing_still(held):
        statuses = await _late_statuses(processes, change)
    if end == "killed":
        for number in numbers:
            processes.start_locks(number)
    assert statuses == {401} if len(numbers) == 1 else 200 not in statuses
    await processes.prepare()


@pytest.mark.drill
async def test_nobody_is_let_in_while_postgres_stands_still(processes: Processes) -> None:
    """Nothing can be asked, and nothing is answered from memory for longer than a second."""
    await processes.prepare()
    server = await processes.postgres.processes()
    with ExitStack() as held:

        async def change() -> None:
            held.enter_context(standing_still(server))

        statuses = await _late_statuses(processes, change)
    assert 200 not in statuses
    await processes.prepare()
