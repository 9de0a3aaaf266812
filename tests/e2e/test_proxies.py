"""Behind the real nginx and the real Caddy, as docs/operations.md configures them (trap-33)."""

import asyncio
import hashlib
import shutil
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import httpx
import pytest

from services.facade.web.media_types import DIALECTS, Dialect
from tests.e2e.test_resumable_uploads import CUTS, MOST_SENT, SIZE
from tests.support.cutting_proxy import cutting_proxy
from tests.support.git import Workspace, shared_repository
from tests.support.http import Client, content, oid_of
from tests.support.proxies import NAME, Proxy, free_port, running_caddy, running_nginx
from tests.support.second_facade import SecondFacade
from tests.support.stack import Stack, running_stack
from tests.support.waiting import until

MIB = 1024**2
# How often a client is told 429 for one request while facades restart: Caddy cannot send a body again.
_MAX_REFUSALS = {"nginx": 0, "caddy": 30}
RUNNING: dict[str, Callable[..., AbstractContextManager[Proxy]]] = {"nginx": running_nginx, "caddy": running_caddy}


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    """A `towpath up` that trusts proxies on this host."""
    with running_stack("--demo", environment={"TOWPATH_TRUSTED_PROXIES": "127.0.0.1"}) as running:
        yield running


@pytest.fixture(scope="module")
def second(stack: Stack, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecondFacade]:
    """Another facade in front of the same services."""
    facade = SecondFacade(stack, f"127.0.0.1:{free_port()}", tmp_path_factory.mktemp("second") / "facade.log")
    facade.start()
    yield facade
    facade.stop()


@pytest.fixture(scope="module", params=["nginx", pytest.param("caddy", marks=pytest.mark.drill)])
def proxy(
    request: pytest.FixtureRequest, stack: Stack, second: SecondFacade, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Proxy]:
    """A proxy in front of both facades."""
    folder = tmp_path_factory.mktemp(request.param)
    with RUNNING[request.param](folder, [stack.listen, second.listen]) as running:
        yield running


def _trusting(proxy: Proxy) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(proxy.files.authority))


def _client(proxy: Proxy, stack: Stack, user: str = "alice", *, ref: str | None = None) -> Client:
    base_url = f"{proxy.origin}/demo/assets"
    return Client(base_url, user, stack.tokens[user], ref=ref, verify=_trusting(proxy))


def _computer(folder: Path, proxy: Proxy, stack: Stack, user: str, *, origin: str = "") -> Workspace:
    computer = Workspace(folder / user, user, stack.tokens[user], origin=origin or proxy.origin)
    computer.git("config", "--global", "http.sslCAInfo", proxy.files.authority)
    return computer


@pytest.mark.usefixtures("relayed")
async def test_hrefs_lead_back_whatever_a_client_claims(proxy: Proxy, stack: Stack) -> None:
    """With the proxy's scheme, host and port; a client's own X-Forwarded headers change nothing."""
    data = content(f"href {proxy.origin}", 1_000)
    claims = {"Host": "evil.example", "Prefix": "/evil", "Proto": "http", "For": "203.0.113.9"}
    async with _client(proxy, stack) as alice:
        alice.http.headers.update({f"X-Forwarded-{name}": text for name, text in claims.items()})
        action = await alice.action("upload", oid_of(data), len(data))
        assert action is not None
        assert action.href == f"{proxy.origin}/demo/assets/objects/{oid_of(data)}"
        assert (await alice.put(action, data, len(data))).status_code == 200
        assert (await alice.download(oid_of(data), len(data))).content == data


@pytest.mark.drill
def test_a_big_object_is_passed_on_while_it_comes(proxy: Proxy, stack: Stack, tmp_path: Path) -> None:
    """Up and down by the real client, neither cut at 1 MB, nor on the proxy's disk, nor in its memory."""
    size = 300 * MIB
    data = content(f"big {proxy.origin}", size)
    digest = hashlib.sha256(data).hexdigest()
    url = f"{proxy.origin}/demo/assets"
    clone = shared_repository(_computer(tmp_path, proxy, stack, "alice"), tmp_path / "remote.git", lfs_url=url)
    clone.commit({"big.dat": data})
    clone.git("push", "origin", "main")
    shutil.rmtree(clone.path)
    there = _computer(tmp_path, proxy, stack, "bob").clone(tmp_path / "remote.git", lfs_url=url)
    with (there.path / "big.dat").open("rb") as file:
        assert hashlib.file_digest(file, "sha256").hexdigest() == digest
    assert proxy.memory() < size / 2
    moved = [request for request in proxy.requests() if request.method in ("PUT", "GET")]
    assert {request.status for request in moved} <= {200}


@pytest.mark.usefixtures("relayed")
async def test_an_upload_goes_on_where_it_broke_off(proxy: Proxy, stack: Stack, tmp_path: Path) -> None:
    """The proxy passes on what came before each cut, and the real client sends none of that again."""
    data = content(f"resumed {proxy.origin}", SIZE)
    target = proxy.origin.removeprefix("https://")
    async with cutting_proxy([target], CUTS) as cutting:
        origin = f"https://{NAME}:{cutting.address.rpartition(':')[2]}"

        def push_and_clone() -> bytes:
            alice = _computer(tmp_path, proxy, stack, "alice", origin=origin)
            clone = shared_repository(alice, tmp_path / "remote.git", lfs_url=f"{origin}/demo/assets")
            clone.git("config", "lfs.tustransfers", "true")
            clone.commit({"big.dat": data})
            clone.git("push", "origin", "main")
            url = f"{proxy.origin}/demo/assets"
            there = _computer(tmp_path, proxy, stack, "bob").clone(tmp_path / "remote.git", lfs_url=url)
            return (there.path / "big.dat").read_bytes()

        assert await asyncio.to_thread(push_and_clone) == data
        assert cutting.cuts_made == len(CUTS)
        assert SIZE < cutting.sent <= MOST_SENT


@pytest.mark.usefixtures("relayed")
def test_eight_uploads_share_one_connection(proxy: Proxy, stack: Stack, tmp_path: Path) -> None:
    """The real client speaks HTTP/2 by itself, and each of its uploads is a stream (client-connections)."""
    url = f"{proxy.origin}/demo/assets"
    clone = shared_repository(_computer(tmp_path, proxy, stack, "alice"), tmp_path / "remote.git", lfs_url=url)
    files = {f"{n}.dat": content(f"h2 {proxy.origin} {n}", 4 * MIB) for n in range(24)}
    clone.commit(files)
    earlier = len(proxy.requests())
    clone.git("-c", "lfs.concurrenttransfers=8", "push", "origin", "main")
    uploads = [request for request in proxy.requests()[earlier:] if request.method == "PUT"]
    assert len(uploads) == len(files)
    assert {(request.protocol, request.status) for request in uploads} == {("HTTP/2.0", 200)}
    assert len({request.connection for request in uploads}) == 1
    name = f"{proxy.log.parent.name}.dat"
    assert f"Locked {name}" in clone.lfs("lock", name).stdout
    there = _computer(tmp_path, proxy, stack, "bob").clone(tmp_path / "remote.git", lfs_url=url)
    assert {name: (there.path / name).read_bytes() for name in files} == files


@pytest.mark.parametrize("program", ["nginx", pytest.param("caddy", marks=pytest.mark.drill)])
def test_a_sub_path(program: str, stack: Stack, second: SecondFacade, tmp_path: Path) -> None:
    """The proxy strips it and says so; the real client pushes, locks and clones there."""
    folder = tmp_path / "proxy"
    folder.mkdir()
    with RUNNING[program](folder, [stack.listen, second.listen], sub_path=True) as proxy:
        url = f"{proxy.origin}/lfs/demo/assets.git/info/lfs"
        clone = shared_repository(_computer(tmp_path, proxy, stack, "alice"), tmp_path / "remote.git", lfs_url=url)
        data = content(f"sub-path {program}", 3 * MIB)
        clone.commit({"a.dat": data})
        clone.git("push", "origin", "main")
        name = f"sub path/{program} é+&%20.dat"
        assert "Locked" in clone.lfs("lock", name).stdout
        there = _computer(tmp_path, proxy, stack, "bob").clone(tmp_path / "remote.git", lfs_url=url)
        assert (there.path / "a.dat").read_bytes() == data
        assert name in there.lfs("locks").stdout
        assert "Unlocked" in clone.lfs("unlock", name).stdout


async def _answer(ask: Callable[[], Awaitable[httpx.Response]], *, refusals: int) -> httpx.Response:
    """Return the answer; as a client does, ask again as often where it is 429."""
    while True:
        answer = await ask()
        if answer.status_code != 429 or not refusals:
            return answer
        refusals -= 1
        await asyncio.sleep(0.2)


async def _work(proxy: Proxy, stack: Stack, name: str, rounds: Counter[str], over: asyncio.Event) -> None:
    """Lock, ask and unlock again and again, and count the rounds; every answer is that of a first time."""
    refusals = _MAX_REFUSALS[proxy.log.parent.name.rstrip("0123456789")]
    async with _client(proxy, stack) as alice:
        while not over.is_set():
            locked = await _answer(partial(alice.lock, f"{name}/{rounds[name]}.psd"), refusals=refusals)
            assert locked.status_code == 201, locked.text
            batch = await _answer(partial(alice.batch, "download", ("0" * 64, 1)), refusals=refusals)
            assert batch.status_code == 200, batch.text
            unlocked = await _answer(partial(alice.unlock, locked.json()["lock"]["id"]), refusals=refusals)
            assert unlocked.status_code == 200, unlocked.text
            rounds[name] += 1


async def _drill(proxy: Proxy, stack: Stack, second: SecondFacade, *, kill: bool) -> None:
    over = asyncio.Event()
    name = proxy.origin.rpartition(":")[2] + ("/killed" if kill else "/stopped")
    names = [f"{name} {n}" for n in range(6)]
    rounds: Counter[str] = Counter()
    working = [asyncio.create_task(_work(proxy, stack, each, rounds, over)) for each in names]

    def gone_on(before: Counter[str]) -> bool:
        return any(task.done() for task in working) or all(rounds[each] > before[each] for each in names)

    try:
        for _ in range(3):
            for change in (second.kill if kill else second.stop, second.start):
                await until(partial(gone_on, rounds.copy()), "all go on")
                await asyncio.to_thread(change)
        await until(partial(gone_on, rounds.copy()), "all go on")
    finally:
        over.set()
        await asyncio.gather(*working)


@pytest.mark.drill
async def test_no_request_fails_while_a_facade_restarts(proxy: Proxy, stack: Stack, second: SecondFacade) -> None:
    """The proxy passes over the one that is away, again and again; what it says 429 to was not done."""
    await _drill(proxy, stack, second, kill=False)


@pytest.mark.parametrize("proxy", ["nginx"], indirect=True)
async def test_no_request_fails_while_a_facade_is_killed(proxy: Proxy, stack: Stack, second: SecondFacade) -> None:
    """Unanswered requests are sent again by nginx; that a lock was made already is known by the request's id."""
    await _drill(proxy, stack, second, kill=True)


@pytest.mark.parametrize("dialect", DIALECTS, ids=lambda dialect: dialect.media_type)
@pytest.mark.parametrize("program", ["nginx", pytest.param("caddy", marks=pytest.mark.drill)])
async def test_without_any_facade_a_client_is_told_to_come_again(
    program: str, dialect: Dialect, stack: Stack, tmp_path: Path
) -> None:
    """429 with Retry-After and a message in its dialect, never 404 or a page (client-8, client-13, client-18)."""
    nobody = f"127.0.0.1:{free_port()}"
    with RUNNING[program](tmp_path, [nobody, nobody]) as proxy:
        async with _client(proxy, stack) as alice:
            alice._headers["Accept"] = dialect.media_type
            for answer in (
                await alice.batch("upload", ("0" * 64, 5)),
                await alice.post("locks/verify"),
                await alice.http.put(
                    f"{alice.base_url}/objects/{'0' * 64}", content=b"x" * MIB, headers=alice._headers
                ),
            ):
                assert answer.status_code == 429
                assert int(answer.headers["retry-after"]) > 0
                assert answer.headers["content-type"] == dialect.media_type
                assert "cannot be reached" in answer.json()["message"]


@pytest.mark.parametrize("proxy", ["nginx"], indirect=True)
async def test_a_json_body_that_is_too_large_is_refused_in_json(proxy: Proxy, stack: Stack) -> None:
    """By nginx itself, which keeps such bodies to be able to send them again."""
    async with _client(proxy, stack) as alice:
        answer = await alice.post("locks", path="x" * 12 * MIB)
    assert answer.status_code == 413
    assert answer.json()["message"] == "body: is too large"
