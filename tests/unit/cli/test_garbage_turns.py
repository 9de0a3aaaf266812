"""Collections now and then: what a command does with its turn, and when it loses it."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from towpath.access.v1 import admin_service_pb2 as pb
from towpath.storage.v1 import storage_service_pb2 as storage

from services.cli.connection import Administration
from services.cli.errors import CommandError
from services.cli.garbage import turns
from services.cli.garbage.turns import Turns
from services.common.errors import NotFound, Reason, ServiceError, Unavailable

ASKED, DONE, FAILED = (
    storage.COLLECTION_OUTCOME_UNSPECIFIED,
    storage.COLLECTION_OUTCOME_DONE,
    storage.COLLECTION_OUTCOME_FAILED,
)
TAKEN, LATER = pb.TakeCollectionTurnResponse(is_taken=True), pb.TakeCollectionTurnResponse(wait_seconds=3)
GONE = NotFound(Reason.REPOSITORY_NOT_FOUND, "no such repository")


class Service:
    """A service that gives these answers in turn, and remembers what it was asked."""

    stub = SimpleNamespace(TakeCollectionTurn=None)

    def __init__(self, answers: Sequence[pb.TakeCollectionTurnResponse | ServiceError]) -> None:
        self._answers = list(answers)
        self.asked: list[pb.TakeCollectionTurnRequest] = []

    async def call(self, _method: object, request: pb.TakeCollectionTurnRequest) -> pb.TakeCollectionTurnResponse:
        """Return the next answer, or raise it."""
        self.asked.append(request)
        answer = self._answers.pop(0)
        if isinstance(answer, ServiceError):
            raise answer
        return answer


async def run(
    service: Service, collect: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> list[storage.CollectionOutcome.ValueType]:
    """Run until the repository is gone, with no waits but those of the test, and return what was told."""
    for name in ("_RETRY_SECONDS", "_MAX_WAIT_SECONDS"):
        monkeypatch.setattr(turns, name, 0)
    with pytest.raises(NotFound):
        await Turns(cast("Administration", service), "demo/assets", timedelta(days=7)).run(collect)
    assert {(asked.repository, asked.every_seconds) for asked in service.asked} == {("demo/assets", 7 * 24 * 3600)}
    assert len({asked.holder for asked in service.asked}) == 1
    return [asked.outcome for asked in service.asked]


async def test_a_turn_is_taken_and_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command waits for its turn, also while no service answers, and tells that it is done."""
    count = 0

    async def collect() -> None:
        nonlocal count
        count += 1

    away = Unavailable(Reason.UNAVAILABLE, "away")
    service = Service([LATER, away, TAKEN, LATER, LATER, TAKEN, LATER, GONE])
    assert await run(service, collect, monkeypatch) == [ASKED, ASKED, ASKED, DONE, ASKED, ASKED, DONE, ASKED]
    assert count == 2


@pytest.mark.parametrize(
    "error", [CommandError("its refs changed"), OSError("its refs changed"), Unavailable("X", "its refs changed")]
)
async def test_a_failure_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: Exception
) -> None:
    """A collection that fails is printed, and another command may try."""

    async def collect() -> None:
        raise error

    assert await run(Service([TAKEN, LATER, GONE]), collect, monkeypatch) == [ASKED, FAILED, ASKED]
    assert "its refs changed" in capsys.readouterr().err


async def test_a_lost_turn_ends_the_collection(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A command that was away for too long does not collect beside the one that has the turn now."""
    ended: list[str] = []

    async def collect() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    monkeypatch.setattr(turns, "_KEEP_SECONDS", 0)
    service = Service([TAKEN, TAKEN, Unavailable("X", "away"), TAKEN, LATER, LATER, GONE])
    assert await run(service, collect, monkeypatch) == [ASKED] * 5 + [FAILED, ASKED]
    assert ended == ["cancelled"]
    assert "another command has the turn" in capsys.readouterr().err
