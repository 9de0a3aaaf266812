"""Cached health of the inner services."""

import asyncio
from collections.abc import Mapping

import pytest

from services.common.rpc.client import Health
from services.facade.clients import health_cache
from services.facade.clients.health_cache import HealthCache
from tests.support.loop import settled


class _Services:
    """Services that answer once they are let."""

    def __init__(self) -> None:
        self.asked = 0
        self.may_answer = asyncio.Event()

    async def ask(self) -> Mapping[str, Health]:
        self.asked += 1
        await self.may_answer.wait()
        return {"storage": Health.SERVING, "asked": Health.SERVING} if self.asked > 1 else {"storage": Health.SERVING}


async def test_all_who_ask_at_once_share_one_answer() -> None:
    """A crowd of probes is no load for the services, however long they take; who gives up takes it from nobody."""
    services = _Services()
    health = HealthCache(services.ask)
    asking = [asyncio.create_task(health.get()) for _ in range(50)]
    await settled()
    asking.pop(0).cancel()
    services.may_answer.set()
    assert await asyncio.gather(*asking) == [{"storage": Health.SERVING}] * 49
    assert services.asked == 1


async def test_an_answer_is_given_again_until_it_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    """Within its age nobody asks again, and beyond it somebody does."""
    services = _Services()
    services.may_answer.set()
    health = HealthCache(services.ask)
    monkeypatch.setattr(health_cache, "MAX_AGE_SECONDS", 3600.0)
    first = await health.get()
    assert await health.get() is first
    assert services.asked == 1
    monkeypatch.setattr(health_cache, "MAX_AGE_SECONDS", 0.0)
    assert await health.get() != first
    assert services.asked == 2


async def test_the_end_leaves_nothing_under_way() -> None:
    """A facade that stops does not wait for services that do not answer."""
    services = _Services()
    health = HealthCache(services.ask)
    asking = asyncio.create_task(health.get())
    await settled()
    await health.close()
    with pytest.raises(asyncio.CancelledError):
        await asking
