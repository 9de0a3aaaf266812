"""The delay with which 300 watchers hear of a change of a lock: `python -m benchmarks.watchers`, two minutes.

Half of the watchers are over HTTP, half over gRPC. Twenty users make a thousand changes. The second run kills a facade,
a lock service and Postgres meanwhile.
"""

import asyncio
import time

import grpc
import httpx

from benchmarks.costs import services_cpu_seconds
from services.cli.up.runtime_directory import LOCKS_SOCKET, runtime_directory
from tests.support.event_stream import Follower
from tests.support.http import Client
from tests.support.stack import Stack, running_stack
from tests.support.waiting import STEP_SECONDS
from tests.support.watchers import Crowd, GrpcFollower

_WATCHERS = 150
_CHANGES = 1_000
_USERS = 20
_PAUSE_SECONDS = 1.0
_KILLED = ("facade", "locks", "postgres")


async def _measure(stack: Stack, killed: tuple[str, ...]) -> None:
    token = stack.tokens["alice"]
    headers = {"Authorization": f"Bearer {token}"}
    repository_id = next(entry["id"] for entry in stack.towpath("repo", "list") if entry["name"] == "demo/assets")
    followers = [Follower(f"{stack.base_url}/locks/events", headers) for _ in range(_WATCHERS)]
    crowd = Crowd(followers, [GrpcFollower(repository_id) for _ in range(_WATCHERS)])
    socket = runtime_directory(stack.data.resolve()) / LOCKS_SOCKET

    async def work() -> None:
        before, began = services_cpu_seconds(stack), time.monotonic()
        async with Client(stack.base_url, "alice", token) as client, asyncio.TaskGroup() as group:
            for user in range(_USERS):
                group.create_task(crowd.change(client, str(user), _CHANGES // _USERS, pause_seconds=_PAUSE_SECONDS))
            for name in killed:
                await asyncio.sleep(_CHANGES / _USERS / (len(killed) + 1))
                await asyncio.to_thread(stack.kill_service, name)
        seconds = time.monotonic() - began
        print(f"  {_CHANGES} changes in {seconds:.0f} s", end="")
        if not killed:
            spent = {name: after - before[name] for name, after in services_cpu_seconds(stack).items()}
            print("; cores:", {name: round(each / seconds, 2) for name, each in spent.items()}, end="")
        print()

    async with (
        httpx.AsyncClient(timeout=STEP_SECONDS, limits=httpx.Limits(max_connections=None), trust_env=False) as http,
        grpc.aio.insecure_channel(f"unix:{socket}") as channel,
    ):
        await crowd.watch(http, work, channel=channel)
    crowd.check()
    delays = crowd.delays()
    shares = {share: round(delays[int(len(delays) * share) - 1], 2) for share in (0.5, 0.95, 0.99)}
    print(f"  delays in s by share of {len(delays)}: {shares}, longest {delays[-1]:.2f}")


def main() -> None:
    """Measure both."""
    for killed in ((), _KILLED):
        print(f"killed: {', '.join(killed) or 'nothing'}")
        with running_stack() as stack:
            asyncio.run(_measure(stack, killed))


if __name__ == "__main__":
    main()
