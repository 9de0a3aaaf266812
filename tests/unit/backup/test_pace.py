"""How fast bytes are read."""

import asyncio

import pytest

from services.storage.pace import Pace


async def test_pauses_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each caller waits until its bytes and all before them are due; without a rate nobody waits."""
    pauses: list[float] = []
    real = asyncio.sleep

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        # Whatever else runs in this loop goes on.
        await real(0)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    pace = Pace(1000)
    for count in (1000, 2000, 500):
        await pace.keep(count)
    assert pauses == pytest.approx([1, 3, 3.5], abs=0.1)
    await Pace(None).keep(1 << 40)
    assert len(pauses) == 3
