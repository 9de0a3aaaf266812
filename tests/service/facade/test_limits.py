"""Clients that send too many requests, or too many objects (429 with Retry-After:; client-6, client-7, client-18)."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from services.database.engine import create_engine
from services.facade.middleware import concurrency_limit
from services.facade.web.media_types import GIT_LFS
from tests.service.facade import raw
from tests.service.facade.conftest import Inner, Place, new_place
from tests.support.facade import RunningFacade
from tests.support.http import MEDIA_TYPE, Client, basic, content, oid_of
from tests.support.postgres import TestPostgres
from tests.support.waiting import STEP_SECONDS, until


def _slow_facade(inner: Inner, **settings: Any) -> AbstractAsyncContextManager[RunningFacade]:  # noqa: ANN401 - settings
    """Run a facade that believes guessers where they come from: other facades of these tests hear of them."""
    return inner.running_facade(trusted_proxies="127.0.0.1", **settings)


def _guesser(address: str) -> httpx.AsyncClient:
    headers = {"Accept": GIT_LFS.media_type, "X-Forwarded-For": address}
    return httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS, headers=headers)


async def test_the_lock_check_with_bad_credentials_is_refused_and_says_why(place: Place) -> None:
    """403 and not 429, after which git-lfs tells its user to switch the check off (trap-44); first 401, to ask anew."""
    inner = place.inner
    async with _slow_facade(inner, failed_logins="2/hour") as facade, _guesser("198.51.100.7") as http:
        url = f"{facade.origin}/{place.name}/locks"
        wrong = {"Authorization": "Bearer x", "Content-Type": GIT_LFS.media_type}
        answers = [await http.post(f"{url}/verify", headers=wrong, content=b"{}") for _ in range(4)]
        assert [answer.status_code for answer in answers] == [401, 401, 403, 403]
        assert "the credentials are not valid" in answers[-1].json()["message"]
        assert "too many" in answers[-1].json()["message"]
        assert (await http.get(url, headers=wrong)).status_code == 429
        assert (await http.post(url, headers=wrong, content=b'{"path": "a"}')).status_code == 429
        good = {**wrong, "Authorization": basic("alice", inner.tokens["alice"])}
        assert (await http.post(f"{url}/verify", headers=good, content=b"{}")).status_code == 200


async def test_facades_add_up_bad_credentials(place: Place, postgres: TestPostgres) -> None:
    """A guesser who goes from one facade to the next must get no more tries, not even at one that starts later."""
    inner, address = place.inner, "198.51.100.2"

    async def owed(seconds: int) -> bool:
        found = f"FROM locks.failed_logins WHERE address = '{address}'"
        query = f"SELECT debt_until > now() + interval '{seconds}s' {found}"
        return await postgres.execute(query, database=inner.locks.database) == "t"

    async def statuses(facade: RunningFacade, count: int) -> list[int]:
        url, headers = f"{facade.origin}/{place.name}/locks", {"Authorization": "Bearer x"}
        async with _guesser(address) as http:
            return [(await http.get(url, headers=headers)).status_code for _ in range(count)]

    # Each is a debt of two hours, so that none is paid off while the test runs.
    settings = {"failed_logins": "5/10 hours"}
    async with _slow_facade(inner, **settings) as one, _slow_facade(inner, **settings) as other:
        assert await statuses(one, 6) == [401] * 5 + [429]
        await until(lambda: owed(35_000))
        assert await statuses(other, 1) == [401]
        await until(lambda: owed(42_000))
        # The answer to what was just told may still be on its way, but not for as many tries as are given.
        assert await _is_refused_soon(lambda: statuses(other, 1))
        async with _slow_facade(inner, **settings) as late:
            assert await _is_refused_soon(lambda: statuses(late, 1))


async def _is_refused_soon(ask: Callable[[], Awaitable[list[int]]]) -> bool:
    """Tell whether one of the next four is, with longer and longer pauses."""
    for tried in range(4):
        if await ask() == [429]:
            return True
        await asyncio.sleep(0.5 * 4**tried)
    return False


async def test_good_credentials_write_nothing(place: Place, postgres: TestPostgres) -> None:
    """They are not counted, and neither is who shows none."""
    written = "SELECT address FROM locks.failed_logins WHERE address IN ('198.51.100.3', '198.51.100.4')"
    async with _slow_facade(place.inner) as facade, _guesser("198.51.100.3") as http, _guesser("198.51.100.4") as bad:
        url = f"{facade.origin}/{place.name}/locks"
        good = {"Authorization": basic("alice", place.inner.tokens["alice"])}
        assert [(await http.get(url, headers=headers)).status_code for headers in (good, {}, good)] == [200, 401, 200]
        # What is told after them is written, and of them nothing.
        assert (await bad.get(url, headers={"Authorization": "Bearer x"})).status_code == 401
        await until(lambda: postgres.execute(written, database=place.inner.locks.database))
    assert await postgres.execute(written, database=place.inner.locks.database) == "198.51.100.4"


async def _statuses(alice: Client, url: str, headers: dict[str, str], lengths: Sequence[int]) -> list[int]:
    headers = {**headers, "Content-Type": MEDIA_TYPE}
    return [(await alice.http.post(url, content=b" " * length, headers=headers)).status_code for length in lengths]


async def test_each_endpoint_reads_as_much_as_it_needs(place: Place) -> None:
    """A body of megabytes takes seconds and a hundred times its memory, and none of them has a use for it."""
    limits = {
        "objects/batch": 1_000 * 160 + 64 * 1024,
        "locks": 32 * 1024,
        "locks/verify": 32 * 1024,
        "locks/1/unlock": 32 * 1024,
        "locks/1/steal": 32 * 1024,
    }
    shown = {"Authorization": basic("alice", place.inner.tokens["alice"])}
    data = content("bounded", 10)
    async with place.client() as alice:
        for path, most in limits.items():
            assert await _statuses(alice, f"{place.base_url}/{path}", shown, [most, most + 1]) == [400, 413], path
        offered = (await alice.batch("upload", (oid_of(data), len(data)))).json()["objects"][0]["actions"]["verify"]
        assert await _statuses(alice, offered["href"], offered["header"], [4_096, 4_097]) == [400, 413]


async def test_too_many_objects_are_told_before_any_is_looked_at(place: Place, http: httpx.AsyncClient) -> None:
    """The facade checks a batch's length before its entries, so that a stranger's huge batch costs little."""
    public = await new_place(place.facade, place.inner, public=True)
    bodies: dict[int, dict[str, object]] = {
        413: {"objects": [5] * 1_001},
        422: {"objects": [{}], "transfers": ["basic"] * 65},
    }
    url, headers = f"{public.base_url}/objects/batch", {"Content-Type": MEDIA_TYPE}
    for status, body in bodies.items():
        answer = await http.post(url, json={"operation": "download", **body}, headers=headers)
        assert answer.status_code == status
        assert "expected at most" in answer.json()["message"]


async def _refused(client: Client) -> httpx.Response:
    """Ask until there is a request too many, and return the answer."""
    async with asyncio.timeout(STEP_SECONDS):
        while (answer := await client.locks()).status_code != 429:
            pass
    return answer


async def test_too_many_requests_at_once_are_told_to_come_again(place: Place) -> None:
    """Before any work; what watches over the facade is answered all the same."""
    inner = place.inner
    data = content("held back", 1_000)
    sending, going = asyncio.Event(), asyncio.Event()

    async def slowly() -> AsyncIterator[bytes]:
        yield data[:500]
        sending.set()
        await going.wait()
        yield data[500:]

    async with (
        inner.running_facade(requests_in_flight=1) as facade,
        Client(f"{facade.origin}/{place.name}", "alice", inner.tokens["alice"]) as alice,
    ):
        action = await alice.offered("upload", data)
        upload = asyncio.create_task(alice.put(action, slowly(), len(data)))
        await sending.wait()
        busy = await _refused(alice)
        assert int(busy.headers["retry-after"]) >= 1
        assert busy.json()["request_id"] == busy.headers["x-request-id"]
        assert (await alice.http.get(f"{facade.origin}/readyz")).status_code == 200
        going.set()
        assert (await upload).status_code == 200
        assert (await alice.locks()).status_code == 200


async def test_one_client_has_a_share_of_the_places(place: Place, http: httpx.AsyncClient) -> None:
    """Neither an address, whoever asks from there, nor a user, wherever from, keeps the others out."""
    inner = place.inner
    data = content("a share", 1_000)
    action = await place.action("upload", data)
    async with _slow_facade(inner, requests_per_client=1) as facade, raw.connected(facade) as (reader, writer):

        async def ask(user: str, address: str) -> tuple[int, str]:
            headers = {"Authorization": basic(user, inner.tokens[user]), "X-Forwarded-For": address}
            answer = await http.get(f"{facade.origin}/{place.name}/locks", headers=headers)
            return answer.status_code, answer.json().get("message", "")

        headers = {"Content-Length": str(len(data)), "Expect": "100-continue", "X-Forwarded-For": "2001:db8::1"}
        writer.write(raw.head(action, "PUT", **headers))
        assert (await raw.answer(reader))[0] == 100
        assert await ask("bob", "2001:db8::2") == (429, "too many requests from your address are being served")
        assert await ask("alice", "198.51.100.9") == (429, "too many of your requests are being served")
        assert await ask("bob", "198.51.100.9") == (200, "")
        assert await ask("bob", "127.0.0.1") == (200, "")
        writer.write(data)
        assert (await raw.answer(reader))[0] == 200
        assert await ask("alice", "2001:db8::2") == (200, "")


@pytest.mark.parametrize("limit", ["requests_in_flight", "requests_per_client"])
async def test_the_lock_check_waits_for_its_place(place: Place, limit: str) -> None:
    """As long as a client waits: after 429 git-lfs would tell its user to switch the check off (trap-44)."""
    inner = place.inner
    data = content(f"patient {limit}", 1_000)
    action = await place.action("upload", data)
    async with (
        _slow_facade(inner, **{limit: 1}) as facade,
        _slow_facade(inner, **{limit: 1}, verify_wait_seconds=0.01) as hasty,
        Client(f"{facade.origin}/{place.name}", "alice", inner.tokens["alice"]) as alice,
    ):
        for running in (hasty, facade):
            alice.base_url = f"{running.origin}/{place.name}"
            async with raw.connected(running) as (reader, writer):
                writer.write(raw.head(action, "PUT", Content_Length=str(len(data)), Expect="100-continue"))
                assert (await raw.answer(reader))[0] == 100
                checking = asyncio.create_task(alice.post("locks/verify"))
                # What waits has no place, or the other's body would not be read to its end.
                assert (await alice.locks()).status_code == 429
                if running is hasty:
                    assert (await checking).status_code == 429
                writer.write(data)
                assert (await raw.answer(reader))[0] == 200
            if running is facade:
                assert (await checking).json() == {"ours": [], "theirs": []}


async def test_a_caller_reads_two_pages_of_the_history_at_once(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """More wait, for a while; those of others do not wait for them."""
    monkeypatch.setattr(concurrency_limit, "_HELD_WAIT_SECONDS", 0.3)
    engine = create_engine(place.inner.locks.database_url, schema="locks", pool_size=1)
    async with place.client() as alice, place.client("bob") as bob:

        def history(client: Client) -> asyncio.Task[httpx.Response]:
            headers = {"Authorization": basic(client.user, place.inner.tokens[client.user])}
            return asyncio.create_task(client.http.get(f"{place.base_url}/locks/history", headers=headers))

        async with engine.begin() as connection:
            await connection.execute(text("LOCK TABLE released_locks IN ACCESS EXCLUSIVE MODE"))
            others = [history(bob)]
            asked = [history(alice) for _ in range(3)]
            [refused], waiting = await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert refused.result().status_code == 429
            assert refused.result().headers["retry-after"] == "1"
            assert refused.result().json()["message"] == "too many of your pages of the lock history are being served"
            assert not others[0].done()
        answers = await asyncio.gather(*waiting, *others)
        assert [answer.status_code for answer in answers] == [200] * 3
        assert [(await task).status_code for task in [history(alice) for _ in range(6)]] == [200] * 6
    await engine.dispose()


async def test_strangers_have_the_rate_of_their_address(place: Place) -> None:
    """A stranger who uses it up takes nothing from other addresses, nor from callers with credentials."""
    data = content("of strangers", 100)
    async with (
        _slow_facade(place.inner, anonymous_rate="3/h") as facade,
        _guesser("198.51.100.21") as http,
        _guesser("198.51.100.22") as other,
    ):
        public = await new_place(facade, place.inner, public=True)
        async with public.client() as alice:
            assert (await alice.upload(data)).status_code == 200
        url = f"{public.base_url}/locks"
        asked = {"operation": "download", "objects": [{"oid": oid_of(data), "size": len(data)}]}
        told = {"Content-Type": GIT_LFS.media_type}
        batch = await http.post(f"{public.base_url}/objects/batch", json=asked, headers=told)
        statuses = [(await http.get(f"{url}{path}")).status_code for path in ("", "/history") * 4]
        statuses.append((await http.get(f"{facade.origin}/-/history/{public.name}")).status_code)
        assert (batch.status_code, statuses) == (200, [200] * 9)
        for path in (
            url,
            f"{url}/events",
            f"{facade.origin}/{place.name}/locks",
            f"{facade.origin}/-/history/{public.name}",
        ):
            refused = await http.get(path, headers={"Accept": "*/*"})
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "300")
        message = "too many requests: your address may make 3/h without credentials; try again in 300 s"
        assert (await http.get(url)).json()["message"] == message
        # Whoever asks so is about to show credentials, and after a 429 git-lfs would switch the check off.
        assert (await http.post(f"{url}/verify", json={})).status_code == 401
        action = batch.json()["objects"][0]["actions"]["download"]
        assert (await http.get(action["href"], headers=action["header"])).content == data
        for path in ("healthz", "-/static/towpath.css"):
            assert (await http.get(f"{facade.origin}/{path}", headers={"Accept": "*/*"})).status_code == 200
        shown = {"Authorization": basic("alice", place.inner.tokens["alice"])}
        assert (await http.get(url, headers=shown)).status_code == 200
        assert (await other.get(url)).status_code == 200
