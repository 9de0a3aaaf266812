"""Duration of a batch of 100 downloads with signed URLs of the store, relative to relayed actions.

`python -m benchmarks.direct` runs a SeaweedFS and two `towpath up` on it, one with direct transfer and one that relays,
sends batches to both in turn, and prints the medians and their ratio.
"""

import asyncio
import os
import secrets
import statistics
import tempfile
import time
from pathlib import Path

from tests.support.http import Client, oid_of
from tests.support.seaweedfs import running_seaweedfs
from tests.support.stack import Stack, running_stack

_OBJECTS = 100
_ROUNDS = 50
_PROBE_SECONDS = 60


async def _main() -> None:
    with tempfile.TemporaryDirectory(prefix="towpath-benchmark-") as folder:
        async with running_seaweedfs(Path(folder)) as server:
            os.environ.update(server.environment, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")

            def stack(transfer: str) -> tuple[str, ...]:
                return ("--demo", "--storage", server.url(transfer))

            with (
                running_stack(*stack("relay"), environment={"TOWPATH_STORAGE_TRANSFER": "relay"}) as relay,
                running_stack(*stack("direct"), environment={"TOWPATH_STORAGE_TRANSFER": "direct"}) as direct,
            ):
                await _compare(relay, direct)


async def _compare(relay: Stack, direct: Stack) -> None:
    objects = [secrets.token_bytes(1000) for _ in range(_OBJECTS)]
    async with _client(relay) as relaying, _client(direct) as directing:
        await _wait_signing(directing)
        for data in objects:
            await _bring(relaying, data)
            await _bring(directing, data)
        asked = [(oid_of(data), len(data)) for data in objects]
        seconds: dict[str, list[float]] = {"relayed": [], "signed": []}
        for _ in range(_ROUNDS):
            for kind, client in (("relayed", relaying), ("signed", directing)):
                began = time.perf_counter()
                response = await client.batch("download", *asked)
                seconds[kind].append(time.perf_counter() - began)
                hrefs = [each["actions"]["download"]["href"] for each in response.json()["objects"]]
                assert all(("X-Amz-Signature" in href) == (kind == "signed") for href in hrefs)
    medians = {kind: statistics.median(each) for kind, each in seconds.items()}
    for kind, median in medians.items():
        print(f"{kind}: a batch of {_OBJECTS} downloads takes {median * 1000:.1f} ms")
    print(f"ratio: {medians['signed'] / medians['relayed']:.2f}")


def _client(stack: Stack) -> Client:
    return Client(stack.base_url, "alice", stack.tokens["alice"])


async def _wait_signing(client: Client) -> None:
    async with asyncio.timeout(_PROBE_SECONDS):
        while True:
            action = await client.action("upload", oid_of(b"nobody"), 6)
            if action is not None and "X-Amz-Signature" in action.href:
                return
            await asyncio.sleep(0.2)


async def _bring(client: Client, data: bytes) -> None:
    response = await client.batch("upload", (oid_of(data), len(data)))
    actions = response.json()["objects"][0]["actions"]
    put = await client.http.put(actions["upload"]["href"], content=data, headers=actions["upload"]["header"])
    put.raise_for_status()
    verify = actions["verify"]
    headers = {**verify["header"], "Content-Type": "application/vnd.blob+json"}
    body = {"oid": oid_of(data), "size": len(data)}
    (await client.http.post(verify["href"], json=body, headers=headers)).raise_for_status()


if __name__ == "__main__":
    asyncio.run(_main())
