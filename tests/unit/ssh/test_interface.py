"""Calls of the facade for a session over SSH: what is refused for a moment is asked again."""

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from services.ssh.errors import Refused
from services.ssh.interface import Facade, Repository
from tests.support.loop import never

Answer = tuple[int, str]
"""A status, and the value of Retry-After; empty for none."""


@asynccontextmanager
async def _repository(answers: Sequence[Answer]) -> AsyncIterator[tuple[Repository, list[bytes]]]:
    """Yield a repository whose facade gives these answers in turn, and the first lines of its requests."""
    left, asked = list(answers), []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).splitlines()[0])
        status, retry_after = left.pop(0)
        body = json.dumps({"message": f"answer {len(asked)}"})
        header = f"Retry-After: {retry_after}\r\n" if retry_after else ""
        writer.write(
            f"HTTP/1.1 {status} Told\r\n{header}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}".encode()
        )
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        facade = Facade(f"http://127.0.0.1:{port}", None, None, 1)
        try:
            yield Repository(facade, "studio/film", "alice", "secret", never), asked
        finally:
            await facade.close()


async def test_a_call_over_a_rate_waits_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call waits and asks again, because git-lfs over SSH would give the push up."""
    pauses, sleep = [], asyncio.sleep

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        await sleep(0)

    monkeypatch.setattr(asyncio, "sleep", pause)
    async with _repository([(429, "1"), (429, "2"), (200, "")]) as (repository, asked):
        assert await repository.call("GET", "locks") == (200, {"message": "answer 3"})
    assert asked == [b"GET /studio/film/locks HTTP/1.1"] * 3
    assert [seconds for seconds in pauses if seconds] == [1, 2]


async def test_the_waits_of_a_call_are_bounded_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """A session that waits for long holds one of the places of all."""
    sleep = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _seconds: sleep(0))
    async with _repository([(429, "40"), (429, "40"), (200, "")]) as (repository, asked):
        with pytest.raises(Refused, match="answer 2"):
            await repository.call("GET", "locks")
    assert len(asked) == 2


@pytest.mark.parametrize("retry_after", ["", "61", "300", "-1", "soon", "0", "1" * 100])
async def test_a_call_does_not_wait_for_long(retry_after: str) -> None:
    """The session ends with the message of the facade, which tells the time."""
    async with _repository([(429, retry_after)]) as (repository, asked):
        with pytest.raises(Refused, match="answer 1") as caught:
            await repository.call("GET", "locks")
    assert caught.value.status == 429
    assert len(asked) == 1


async def test_other_refusals_are_final() -> None:
    """Also with a Retry-After."""
    async with _repository([(503, "1")]) as (repository, asked):
        with pytest.raises(Refused):
            await repository.call("GET", "locks")
    assert len(asked) == 1
