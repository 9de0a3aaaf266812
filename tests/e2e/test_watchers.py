"""Three hundred watchers of a repository's locks, while services are killed; and the command that watches."""

import asyncio
import itertools
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import grpc
import httpx
import pytest

from services.cli.up.runtime_directory import LOCKS_SOCKET, runtime_directory
from tests.support.event_stream import Follower
from tests.support.http import Client
from tests.support.stack import TOWPATH, running_stack
from tests.support.waiting import LONG_SECONDS, STEP_SECONDS, blocking_until, until
from tests.support.watchers import Crowd, GrpcFollower

WATCHERS = 150
"""Over HTTP, and as many over gRPC."""
CHANGES = 1_000
WORKERS = 20
KILLED = ("facade", "locks", "postgres", "facade", "locks")


@pytest.mark.timeout(3 * LONG_SECONDS)
@pytest.mark.drill
async def test_three_hundred_watchers_while_services_are_killed() -> None:
    """Each hears of each of a thousand changes once, and of the changes of each path in order."""
    with running_stack("--demo") as stack:
        token = stack.tokens["alice"]
        headers = {"Authorization": f"Bearer {token}"}
        repository_id = next(entry["id"] for entry in stack.towpath("repo", "list") if entry["name"] == "demo/assets")
        followers = [Follower(f"{stack.base_url}/locks/events", headers) for _ in range(WATCHERS)]
        crowd = Crowd(followers, [GrpcFollower(repository_id) for _ in range(WATCHERS)])
        socket = runtime_directory(stack.data.resolve()) / LOCKS_SOCKET
        limits = httpx.Limits(max_connections=None)

        def more_than(count: int) -> Callable[[], bool]:
            return lambda: len(crowd.made) > count

        async def work() -> None:
            async with Client(stack.base_url, "alice", token) as client, asyncio.TaskGroup() as group:
                for worker in range(WORKERS):
                    group.create_task(crowd.change(client, str(worker), CHANGES // WORKERS, pause_seconds=0.5))
                for number, name in enumerate(KILLED, 1):
                    await until(more_than(number * CHANGES // (len(KILLED) + 2)), seconds=LONG_SECONDS)
                    await asyncio.to_thread(stack.kill_service, name)

        async with (
            httpx.AsyncClient(timeout=STEP_SECONDS, limits=limits, trust_env=False) as http,
            grpc.aio.insecure_channel(f"unix:{socket}") as channel,
        ):
            await crowd.watch(http, work, channel=channel)
        assert len(crowd.made) == CHANGES
        crowd.check()
        assert min(follower.connections for follower in followers) > 1, "each was cut off and came back"


def test_the_command_that_watches(tmp_path: Path) -> None:
    """`lock watch` prints each change, goes on after a restart of the lock service, and ends with Ctrl-C."""
    with running_stack() as stack:
        told, text = tmp_path / "told", tmp_path / "text"
        command = [*TOWPATH, "lock", "watch", "demo/assets", "--data", str(stack.data)]
        with told.open("w") as as_json, text.open("w") as as_text:
            # A shell lets the programs that it runs in the background ignore what Ctrl-C sends.
            heeding = ["env", "--default-signal=INT", *command]
            watches = [
                subprocess.Popen([*heeding, "--json"], stdout=as_json),
                subprocess.Popen(heeding, stdout=as_text),
            ]
        numbers = itertools.count()

        def lines() -> list[dict[str, object]]:
            return [json.loads(line) for line in told.read_text().splitlines()]

        def both_watch() -> bool:
            stack.towpath("lock", "add", "demo/assets", f"begin/{next(numbers)}")
            return bool(lines()) and bool(text.read_text())

        blocking_until(both_watch, "the commands watch")
        stack.towpath("lock", "add", "demo/assets", "a\x1b.psd", "--user", "alice")
        stack.kill_service("locks")
        stack.towpath("lock", "remove", "demo/assets", "a\x1b.psd")
        blocking_until(lambda: [line["type"] for line in lines()][-2:] == ["created", "released"], "both are told")
        created, released = lines()[-2:]
        assert created["lock"] == released["lock"]
        assert (created["by"], released["by"], released["forced"]) == ("alice", "admin", True)
        blocking_until(lambda: "lock of alice removed by admin" in text.read_text(), "both are told")
        assert "\x1b" not in text.read_text()
        for process in watches:
            process.send_signal(signal.SIGINT)
            assert process.wait(STEP_SECONDS) == 0
