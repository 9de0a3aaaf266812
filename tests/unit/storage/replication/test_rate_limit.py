"""Rate limit of reads."""

import asyncio
from types import SimpleNamespace

import pytest

from services.storage.replication import rate_limit as module
from services.storage.replication.rate_limit import RateLimiter


async def test_pauses_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each caller waits until its bytes and all before them are due; without a rate nobody waits."""
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    # Not in asyncio itself: other tasks of this loop sleep too.
    known = SimpleNamespace(sleep=pause, get_running_loop=asyncio.get_running_loop)
    monkeypatch.setattr(module, "asyncio", known)
    pace = RateLimiter(1000)
    for count in (1000, 2000, 500):
        await pace.acquire(count)
    assert pauses == pytest.approx([1, 3, 3.5], abs=0.1)
    await RateLimiter(None).acquire(1 << 40)
    assert len(pauses) == 3
