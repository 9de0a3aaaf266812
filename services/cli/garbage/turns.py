"""Collections now and then: of several commands that run for one repository, one collects at a time."""

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Never

import grpc
import typer
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.cli.connection import Administration
from services.cli.errors import CommandError
from services.common.errors import ServiceError
from services.common.lifecycle import cancel_and_wait

# The service gives a turn for five minutes.
_KEEP_SECONDS = 60.0
_MAX_MISSED_SECONDS = 240.0
_ASK_SECONDS = 30.0
_RETRY_SECONDS = 60.0
_MAX_WAIT_SECONDS = 3600.0
# These say that the next attempt would fail as well.
_FINAL = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.NOT_FOUND)


class Turns:
    """The turns that one command asks for."""

    def __init__(self, admin: Administration, repository: str, every: timedelta) -> None:
        self._admin = admin
        self._repository = repository
        self._every = every
        self._holder = secrets.token_hex(16)

    async def run(self, collect: Callable[[], Coroutine[None, None, None]]) -> Never:
        """Collect whenever it is this command's turn, forever. What a collection fails with is printed.

        Raises the `ServiceError` of a service that refuses the caller, or does not know the repository.
        """
        while True:
            try:
                answer = await self._ask(storage.COLLECTION_OUTCOME_UNSPECIFIED)
                if answer.is_taken:
                    outcome = await self._collect(collect)
                    answer = await self._ask(outcome)
                await asyncio.sleep(min(max(1, answer.wait_seconds), _MAX_WAIT_SECONDS))
            except ServiceError as error:
                if error.status in _FINAL:
                    raise
                _complain(error.message)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _collect(self, collect: Callable[[], Coroutine[None, None, None]]) -> storage.CollectionOutcome.ValueType:
        collecting, keeping = asyncio.create_task(collect()), asyncio.create_task(self._keep())
        try:
            await asyncio.wait({collecting, keeping}, return_when=asyncio.FIRST_COMPLETED)
            if not collecting.done():
                _complain("another command has the turn; this one was away for too long")
                return storage.COLLECTION_OUTCOME_FAILED
            await collecting
        except (CommandError, OSError) as error:
            _complain(str(error))
        except ServiceError as error:
            _complain(error.message)
        else:
            return storage.COLLECTION_OUTCOME_DONE
        finally:
            # The error of one that has ended was told already.
            await cancel_and_wait(*(task for task in (collecting, keeping) if not task.done()))
        return storage.COLLECTION_OUTCOME_FAILED

    async def _keep(self) -> None:
        """Keep the turn; return once it is lost."""
        kept_at = time.monotonic()
        while time.monotonic() - kept_at < _MAX_MISSED_SECONDS:
            await asyncio.sleep(_KEEP_SECONDS)
            with suppress(ServiceError, TimeoutError):
                async with asyncio.timeout(_ASK_SECONDS):
                    answer = await self._ask(storage.COLLECTION_OUTCOME_UNSPECIFIED)
                if not answer.is_taken:
                    return
                kept_at = time.monotonic()

    async def _ask(self, outcome: storage.CollectionOutcome.ValueType) -> pb.TakeCollectionTurnResponse:
        request = pb.TakeCollectionTurnRequest(
            repository=self._repository,
            holder=self._holder,
            every_seconds=math.ceil(self._every.total_seconds()),
            outcome=outcome,
        )
        return await self._admin.call(self._admin.stub.TakeCollectionTurn, request)


def _complain(message: str) -> None:
    typer.echo(f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} {message}", err=True)
