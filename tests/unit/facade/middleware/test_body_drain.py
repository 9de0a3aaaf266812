"""Answers to requests whose body was not read to its end."""

import asyncio
from collections.abc import Iterable

from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send

from services.facade.middleware.body_drain import BodyDrain
from tests.support.loop import never
from tests.support.waiting import until


async def _refuse(scope: Scope, receive: Receive, send: Send) -> None:
    await PlainTextResponse("no", status_code=403)(scope, receive, send)


async def _exchange(
    pieces: Iterable[bytes], *, silent: bool = False, sent: list[Message] | None = None, **headers: str
) -> tuple[list[Message], int]:
    """Return what was sent, which `sent` tells as it is, and how many messages of the request were read."""
    sent = [] if sent is None else sent
    waiting = list(pieces)
    read = 0

    async def receive() -> Message:
        nonlocal read
        if not waiting and silent:
            await never()
        read += 1
        piece = waiting.pop(0)
        return {"type": "http.request", "body": piece, "more_body": bool(waiting) or silent}

    async def send(message: Message) -> None:
        sent.append(message)

    encoded = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    await BodyDrain(_refuse)({"type": "http", "method": "PUT", "headers": encoded}, receive, send)
    return sent, read


def _closes(sent: list[Message]) -> bool:
    return (b"connection", b"close") in sent[0]["headers"]


async def test_a_large_body_is_drained_after_the_answer_and_before_the_end() -> None:
    """The answer is sent in full, the end of it held back (client-early-refusal)."""
    sent, read = await _exchange([b"x" * 1000] * 100, content_length="100000")
    assert _closes(sent)
    assert [message.get("more_body") for message in sent] == [None, True, False]
    assert sent[1]["body"] == b"no"
    assert read == 100


async def test_draining_has_a_bound() -> None:
    """A client that sends for ever is cut off."""
    sent, read = await _exchange([b"x" * 1024**2] * 100, transfer_encoding="chunked")
    assert sent[-1]["more_body"] is False
    assert 64 <= read < 70


async def test_a_small_body_is_read_first_and_the_connection_stays() -> None:
    """As in the first, anonymous batch of every client."""
    sent, read = await _exchange([b"x" * 100], content_length="100")
    assert not _closes(sent)
    assert read == 1


async def test_a_small_body_that_does_not_come_is_not_waited_for() -> None:
    """The answer comes all the same."""
    sent: list[Message] = []
    task = asyncio.create_task(_exchange([b"x"], silent=True, sent=sent, content_length="100"))
    await until(lambda: sent, "the answer begins")
    task.cancel()
    await asyncio.wait([task])


async def test_a_client_that_waits_to_be_told_to_send_is_not_drained() -> None:
    """It has sent nothing, and sees the answer."""
    sent, read = await _exchange([], silent=True, content_length="100000", expect="100-continue")
    assert _closes(sent)
    assert read == 0


async def test_without_a_body_nothing_changes() -> None:
    """Neither headers nor messages."""
    sent, read = await _exchange([])
    assert not _closes(sent)
    assert [message.get("more_body", False) for message in sent] == [False, False]
    assert read == 0
