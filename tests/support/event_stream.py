"""Clients of server-sent events: one stream, and a follower that reconnects as browsers do."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.support.waiting import STEP_SECONDS

_PAUSE_SECONDS = 0.2


@dataclass(frozen=True)
class SentEvent:
    """An event as it was sent, and when it came (`time.time`)."""

    id: str
    name: str
    data: dict[str, Any]
    came_at: float

    @property
    def path(self) -> str:
        """The path of the lock."""
        return str(self.data["lock"]["path"])


class EventParser:
    """Reads the lines of a stream. Fields that this interface does not send are errors."""

    def __init__(self) -> None:
        self._fields: dict[str, str] = {}

    def add(self, line: str) -> SentEvent | None:
        """Take one line in, and return the event that it completes."""
        if line.startswith(":"):
            return None
        if line:
            name, separator, value = line.partition(": ")
            assert separator, line
            assert name in ("id", "event", "data", "retry"), line
            assert name not in self._fields, line
            self._fields[name] = value
            return None
        fields, self._fields = self._fields, {}
        if "data" not in fields:
            return None
        return SentEvent(fields["id"], fields["event"], json.loads(fields["data"]), time.time())


def parsed(lines: Iterator[str]) -> Iterator[SentEvent]:
    """Yield the events of a stream."""
    parser = EventParser()
    for line in lines:
        if event := parser.add(line):
            yield event


@asynccontextmanager
async def open_stream(
    http: httpx.AsyncClient, url: str, headers: Mapping[str, str]
) -> AsyncIterator[AsyncIterator[SentEvent]]:
    """Open a stream, and yield its events, which end when the server ends it or cuts it."""

    async def events(answer: httpx.Response) -> AsyncIterator[SentEvent]:
        parser = EventParser()
        async for line in answer.aiter_lines():
            if event := parser.add(line):
                yield event

    async with http.stream("GET", url, headers={"Accept": "text/event-stream", **headers}) as answer:
        if answer.status_code != 200:
            await answer.aread()
            answer.raise_for_status()
        assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
        yield events(answer)


async def next_event(events: AsyncIterator[SentEvent]) -> SentEvent:
    """Return the next event."""
    async with asyncio.timeout(STEP_SECONDS):
        return await anext(events)


@dataclass
class Follower:
    """Somebody who follows the events wherever they are, reconnects with the last id, and keeps what came."""

    url: str
    headers: Mapping[str, str]
    last_id: str = ""
    events: list[SentEvent] = field(default_factory=list)
    connections: int = 0
    is_ready: asyncio.Event = field(default_factory=asyncio.Event)

    async def follow(self, http: httpx.AsyncClient) -> None:
        """Follow until cancelled; a reset is an error."""
        while True:
            with suppress(httpx.TransportError, httpx.HTTPStatusError):
                resumed = {"Last-Event-ID": self.last_id} if self.last_id else {}
                async with open_stream(http, self.url, {**self.headers, **resumed}) as events:
                    self.connections += 1
                    async for event in events:
                        assert event.name != "reset"
                        self.last_id = event.id
                        if event.name != "ready":
                            self.events.append(event)
                        self.is_ready.set()
            await asyncio.sleep(_PAUSE_SECONDS)
