"""Watching for changes, while somebody uses what they would make wrong (docs/decisions/0018)."""

import asyncio
import time

import pytest

from services.facade.clients.watch import WAIT_SECONDS, Changes, watching
from tests.support.virtual_time import Clock, run_in_virtual_time


def test_changes_that_nobody_uses_are_not_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner services rest after ten seconds without a use, and the next use makes the facade ask at once."""

    async def scenario(clock: Clock) -> None:
        monkeypatch.setattr(time, "monotonic", clock)
        changes, asked = Changes(), []

        async def ask() -> None:
            await changes.wait_for_use()
            asked.append(clock())
            await asyncio.sleep(WAIT_SECONDS)
            changes.hold(asked[-1])

        async with watching(ask, "not known"):
            await asyncio.sleep(9)
            assert changes.are_known()
            await asyncio.sleep(60)
            assert asked[-1] == pytest.approx(19, abs=WAIT_SECONDS), asked[-5:]
            assert not changes.are_known()
            await asyncio.sleep(2 * WAIT_SECONDS)
            assert changes.are_known()

    run_in_virtual_time(scenario)
