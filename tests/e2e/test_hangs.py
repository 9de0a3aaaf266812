"""Processes of `towpath up` that hang: they run, and answer nobody."""

import signal

import httpx
import pytest

from tests.support.http import Client, content
from tests.support.service_process import wait_ready
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS, until


def _pids(stack: Stack, name: str) -> set[int]:
    return {process.pid for process in stack.services(name)}


@pytest.mark.drill
async def test_the_other_facade_takes_what_comes() -> None:
    """While one of two facades hangs, new connections are the other one's; it is started again in the end."""
    with running_stack("--demo") as stack:
        hanging = stack.service("facade")
        hanging.send_signal(signal.SIGSTOP)
        for _ in range(20):
            async with httpx.AsyncClient(trust_env=False, timeout=STEP_SECONDS) as http:
                assert (await http.get(f"{stack.origin}/healthz")).status_code == 200
        await until(lambda: hanging.pid not in _pids(stack, "facade"), "the one that hangs is ended")
        await until(lambda: len(_pids(stack, "facade")) == 2, "there are two facades again")
        assert "facade hangs and is killed" in stack.log()


@pytest.mark.parametrize("name", ["storage", "locks", "postgres"])
@pytest.mark.drill
async def test_what_hangs_is_started_again(name: str) -> None:
    """A service, or Postgres, that is stopped comes back by itself, and people go on."""
    with running_stack("--demo") as stack:
        hanging = stack.service(name)
        hanging.send_signal(signal.SIGSTOP)
        await until(lambda: not hanging.is_running() or hanging.pid not in _pids(stack, name), "it is ended")
        await until(lambda: _pids(stack, name), "there is another one")
        assert f"{name} hangs and is killed" in stack.log()
        await wait_ready(stack.origin)
        async with Client(stack.base_url, "alice", stack.tokens["alice"]) as client:
            assert (await client.upload(content(name, 1000))).status_code == 200
            assert (await client.lock("a.bin")).status_code == 201
