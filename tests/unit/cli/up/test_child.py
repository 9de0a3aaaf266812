"""Detection of processes that hang, by probes that find no sign of life."""

import time
from collections.abc import Iterable, Iterator
from itertools import chain, repeat

import pytest

from services.cli.up.child import _until_it_hangs

_INTERVAL_SECONDS = 0.001
_LIMIT = 3


class _NoMoreProbesError(Exception):
    """The probes of a test are over, and the process was not found to hang."""


async def _probes_until_it_hangs(signs: Iterator[bool], busy: Iterable[bool] = ()) -> int:
    """Return the number of probes after which a process hangs that shows these signs of life, and is so busy."""
    probes, loads = 0, chain(busy, repeat(False))

    async def answers() -> bool:
        nonlocal probes
        for is_alive in signs:
            probes += 1
            return is_alive
        raise _NoMoreProbesError

    await _until_it_hangs(answers, lambda: next(loads), interval=_INTERVAL_SECONDS, seconds=_LIMIT * _INTERVAL_SECONDS)
    return probes


async def test_silent_probes_in_a_row_are_a_hang() -> None:
    """A sign of life ends the count of silent probes."""
    assert await _probes_until_it_hangs(iter([True, False, False, True, *[False] * 10])) == 4 + _LIMIT


async def test_one_that_starts_slowly_does_not_hang() -> None:
    """Silence before the first sign of life is a start, however long it lasts."""
    assert await _probes_until_it_hangs(iter([*[False] * 20, True, *[False] * 10])) == 21 + _LIMIT


async def test_one_that_is_busy_does_not_hang() -> None:
    """A process that uses the processor is silent because it has much to do; killed, it would lose its transfers."""
    busy = [False, False, True]
    assert await _probes_until_it_hangs(iter([True, *[False] * 10]), busy) == 3 + _LIMIT


async def test_time_without_probes_is_no_silence() -> None:
    """On a machine that stood still for longer than the limit, the process could not answer, and goes on."""

    def signs() -> Iterator[bool]:
        yield True
        time.sleep(10 * _LIMIT * _INTERVAL_SECONDS)
        yield from (False, False, True)

    with pytest.raises(_NoMoreProbesError):
        await _probes_until_it_hangs(signs())
